/*! d3, the parts that the page uses.

d3-color 3.1.1, d3-dispatch 3.0.2, d3-drag 3.0.1, d3-interpolate 3.0.2, d3-selection 3.0.1, d3-shape 3.2.1, d3-timer 3.0.2, d3-transition 3.0.2, d3-zoom 3.0.1

Copyright 2010-2026 Mike Bostock

Permission to use, copy, modify, and/or distribute this software for any purpose
with or without fee is hereby granted, provided that the above copyright notice
and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH
REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND
FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS
OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER
TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.

---

d3-ease 3.0.2

Copyright 2010-2026 Mike Bostock
Copyright 2001 Robert Penner
All rights reserved.

Redistribution and use in source and binary forms, with or without modification,
are permitted provided that the following conditions are met:

* Redistributions of source code must retain the above copyright notice, this
  list of conditions and the following disclaimer.

* Redistributions in binary form must reproduce the above copyright notice,
  this list of conditions and the following disclaimer in the documentation
  and/or other materials provided with the distribution.

* Neither the name of the author nor the names of contributors may be used to
  endorse or promote products derived from this software without specific prior
  written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND
ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR CONTRIBUTORS BE LIABLE FOR
ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES
(INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES;
LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON
ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT
(INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS
SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.

---

d3-path 3.1.1

Copyright 2015-2026 Mike Bostock

Permission to use, copy, modify, and/or distribute this software for any purpose
with or without fee is hereby granted, provided that the above copyright notice
and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH
REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND
FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT,
INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS
OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER
TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF
THIS SOFTWARE.
*/
var d3=(()=>{var cn=Object.defineProperty;var Pi=Object.getOwnPropertyDescriptor;var qi=Object.getOwnPropertyNames;var Di=Object.prototype.hasOwnProperty;var Bi=(t,n)=>{for(var e in n)cn(t,e,{get:n[e],enumerable:!0})},Xi=(t,n,e,i)=>{if(n&&typeof n=="object"||typeof n=="function")for(let r of qi(n))!Di.call(t,r)&&r!==e&&cn(t,r,{get:()=>n[r],enumerable:!(i=Pi(n,r))||i.enumerable});return t};var Li=t=>Xi(cn({},"__esModule",{value:!0}),t);var qa={};Bi(qa,{interpolateRgbBasis:()=>Ye,line:()=>ki,linkHorizontal:()=>Ni,pointer:()=>B,rgb:()=>ct,select:()=>D,zoom:()=>ci,zoomIdentity:()=>It});var hn="http://www.w3.org/1999/xhtml",te={svg:"http://www.w3.org/2000/svg",xhtml:hn,xlink:"http://www.w3.org/1999/xlink",xml:"http://www.w3.org/XML/1998/namespace",xmlns:"http://www.w3.org/2000/xmlns/"};function wt(t){var n=t+="",e=n.indexOf(":");return e>=0&&(n=t.slice(0,e))!=="xmlns"&&(t=t.slice(e+1)),te.hasOwnProperty(n)?{space:te[n],local:t}:t}function Yi(t){return function(){var n=this.ownerDocument,e=this.namespaceURI;return e===hn&&n.documentElement.namespaceURI===hn?n.createElement(t):n.createElementNS(e,t)}}function Hi(t){return function(){return this.ownerDocument.createElementNS(t.space,t.local)}}function ne(t){var n=wt(t);return(n.local?Hi:Yi)(n)}function Fi(){}function Dt(t){return t==null?Fi:function(){return this.querySelector(t)}}function Vi(t){typeof t!="function"&&(t=Dt(t));for(var n=this._groups,e=n.length,i=new Array(e),r=0;r<e;++r)for(var o=n[r],s=o.length,a=i[r]=new Array(s),u,l,c=0;c<s;++c)(u=o[c])&&(l=t.call(u,u.__data__,c,o))&&("__data__"in u&&(l.__data__=u.__data__),a[c]=l);return new O(i,this._parents)}function Gi(t){return t==null?[]:Array.isArray(t)?t:Array.from(t)}function Ui(){return[]}function _n(t){return t==null?Ui:function(){return this.querySelectorAll(t)}}function Ki(t){return function(){return Gi(t.apply(this,arguments))}}function Qi(t){typeof t=="function"?t=Ki(t):t=_n(t);for(var n=this._groups,e=n.length,i=[],r=[],o=0;o<e;++o)for(var s=n[o],a=s.length,u,l=0;l<a;++l)(u=s[l])&&(i.push(t.call(u,u.__data__,l,s)),r.push(u));return new O(i,r)}function pn(t){return function(){return this.matches(t)}}function ee(t){return function(n){return n.matches(t)}}var Zi=Array.prototype.find;function Wi(t){return function(){return Zi.call(this.children,t)}}function Ji(){return this.firstElementChild}function ji(t){return this.select(t==null?Ji:Wi(typeof t=="function"?t:ee(t)))}var tr=Array.prototype.filter;function nr(){return Array.from(this.children)}function er(t){return function(){return tr.call(this.children,t)}}function ir(t){return this.selectAll(t==null?nr:er(typeof t=="function"?t:ee(t)))}function rr(t){typeof t!="function"&&(t=pn(t));for(var n=this._groups,e=n.length,i=new Array(e),r=0;r<e;++r)for(var o=n[r],s=o.length,a=i[r]=[],u,l=0;l<s;++l)(u=o[l])&&t.call(u,u.__data__,l,o)&&a.push(u);return new O(i,this._parents)}function ie(t){return new Array(t.length)}function or(){return new O(this._enter||this._groups.map(ie),this._parents)}function qt(t,n){this.ownerDocument=t.ownerDocument,this.namespaceURI=t.namespaceURI,this._next=null,this._parent=t,this.__data__=n}qt.prototype={constructor:qt,appendChild:function(t){return this._parent.insertBefore(t,this._next)},insertBefore:function(t,n){return this._parent.insertBefore(t,n)},querySelector:function(t){return this._parent.querySelector(t)},querySelectorAll:function(t){return this._parent.querySelectorAll(t)}};function sr(t){return function(){return t}}function ar(t,n,e,i,r,o){for(var s=0,a,u=n.length,l=o.length;s<l;++s)(a=n[s])?(a.__data__=o[s],i[s]=a):e[s]=new qt(t,o[s]);for(;s<u;++s)(a=n[s])&&(r[s]=a)}function ur(t,n,e,i,r,o,s){var a,u,l=new Map,c=n.length,p=o.length,_=new Array(c),g;for(a=0;a<c;++a)(u=n[a])&&(_[a]=g=s.call(u,u.__data__,a,n)+"",l.has(g)?r[a]=u:l.set(g,u));for(a=0;a<p;++a)g=s.call(t,o[a],a,o)+"",(u=l.get(g))?(i[a]=u,u.__data__=o[a],l.delete(g)):e[a]=new qt(t,o[a]);for(a=0;a<c;++a)(u=n[a])&&l.get(_[a])===u&&(r[a]=u)}function lr(t){return t.__data__}function cr(t,n){if(!arguments.length)return Array.from(this,lr);var e=n?ur:ar,i=this._parents,r=this._groups;typeof t!="function"&&(t=sr(t));for(var o=r.length,s=new Array(o),a=new Array(o),u=new Array(o),l=0;l<o;++l){var c=i[l],p=r[l],_=p.length,g=hr(t.call(c,c&&c.__data__,l,i)),b=g.length,T=a[l]=new Array(b),N=s[l]=new Array(b),y=u[l]=new Array(_);e(c,p,T,N,y,g,n);for(var E=0,S=0,$,I;E<b;++E)if($=T[E]){for(E>=S&&(S=E+1);!(I=N[S])&&++S<b;);$._next=I||null}}return s=new O(s,i),s._enter=a,s._exit=u,s}function hr(t){return typeof t=="object"&&"length"in t?t:Array.from(t)}function fr(){return new O(this._exit||this._groups.map(ie),this._parents)}function _r(t,n,e){var i=this.enter(),r=this,o=this.exit();return typeof t=="function"?(i=t(i),i&&(i=i.selection())):i=i.append(t+""),n!=null&&(r=n(r),r&&(r=r.selection())),e==null?o.remove():e(o),i&&r?i.merge(r).order():r}function pr(t){for(var n=t.selection?t.selection():t,e=this._groups,i=n._groups,r=e.length,o=i.length,s=Math.min(r,o),a=new Array(r),u=0;u<s;++u)for(var l=e[u],c=i[u],p=l.length,_=a[u]=new Array(p),g,b=0;b<p;++b)(g=l[b]||c[b])&&(_[b]=g);for(;u<r;++u)a[u]=e[u];return new O(a,this._parents)}function gr(){for(var t=this._groups,n=-1,e=t.length;++n<e;)for(var i=t[n],r=i.length-1,o=i[r],s;--r>=0;)(s=i[r])&&(o&&s.compareDocumentPosition(o)^4&&o.parentNode.insertBefore(s,o),o=s);return this}function dr(t){t||(t=mr);function n(p,_){return p&&_?t(p.__data__,_.__data__):!p-!_}for(var e=this._groups,i=e.length,r=new Array(i),o=0;o<i;++o){for(var s=e[o],a=s.length,u=r[o]=new Array(a),l,c=0;c<a;++c)(l=s[c])&&(u[c]=l);u.sort(n)}return new O(r,this._parents).order()}function mr(t,n){return t<n?-1:t>n?1:t>=n?0:NaN}function yr(){var t=arguments[0];return arguments[0]=this,t.apply(null,arguments),this}function vr(){return Array.from(this)}function xr(){for(var t=this._groups,n=0,e=t.length;n<e;++n)for(var i=t[n],r=0,o=i.length;r<o;++r){var s=i[r];if(s)return s}return null}function wr(){let t=0;for(let n of this)++t;return t}function br(){return!this.node()}function Tr(t){for(var n=this._groups,e=0,i=n.length;e<i;++e)for(var r=n[e],o=0,s=r.length,a;o<s;++o)(a=r[o])&&t.call(a,a.__data__,o,r);return this}function kr(t){return function(){this.removeAttribute(t)}}function Mr(t){return function(){this.removeAttributeNS(t.space,t.local)}}function Nr(t,n){return function(){this.setAttribute(t,n)}}function Ar(t,n){return function(){this.setAttributeNS(t.space,t.local,n)}}function Er(t,n){return function(){var e=n.apply(this,arguments);e==null?this.removeAttribute(t):this.setAttribute(t,e)}}function Sr(t,n){return function(){var e=n.apply(this,arguments);e==null?this.removeAttributeNS(t.space,t.local):this.setAttributeNS(t.space,t.local,e)}}function Cr(t,n){var e=wt(t);if(arguments.length<2){var i=this.node();return e.local?i.getAttributeNS(e.space,e.local):i.getAttribute(e)}return this.each((n==null?e.local?Mr:kr:typeof n=="function"?e.local?Sr:Er:e.local?Ar:Nr)(e,n))}function re(t){return t.ownerDocument&&t.ownerDocument.defaultView||t.document&&t||t.defaultView}function $r(t){return function(){this.style.removeProperty(t)}}function Ir(t,n,e){return function(){this.style.setProperty(t,n,e)}}function Rr(t,n,e){return function(){var i=n.apply(this,arguments);i==null?this.style.removeProperty(t):this.style.setProperty(t,i,e)}}function Or(t,n,e){return arguments.length>1?this.each((n==null?$r:typeof n=="function"?Rr:Ir)(t,n,e??"")):it(this.node(),t)}function it(t,n){return t.style.getPropertyValue(n)||re(t).getComputedStyle(t,null).getPropertyValue(n)}function zr(t){return function(){delete this[t]}}function Pr(t,n){return function(){this[t]=n}}function qr(t,n){return function(){var e=n.apply(this,arguments);e==null?delete this[t]:this[t]=e}}function Dr(t,n){return arguments.length>1?this.each((n==null?zr:typeof n=="function"?qr:Pr)(t,n)):this.node()[t]}function oe(t){return t.trim().split(/^|\s+/)}function gn(t){return t.classList||new se(t)}function se(t){this._node=t,this._names=oe(t.getAttribute("class")||"")}se.prototype={add:function(t){var n=this._names.indexOf(t);n<0&&(this._names.push(t),this._node.setAttribute("class",this._names.join(" ")))},remove:function(t){var n=this._names.indexOf(t);n>=0&&(this._names.splice(n,1),this._node.setAttribute("class",this._names.join(" ")))},contains:function(t){return this._names.indexOf(t)>=0}};function ae(t,n){for(var e=gn(t),i=-1,r=n.length;++i<r;)e.add(n[i])}function ue(t,n){for(var e=gn(t),i=-1,r=n.length;++i<r;)e.remove(n[i])}function Br(t){return function(){ae(this,t)}}function Xr(t){return function(){ue(this,t)}}function Lr(t,n){return function(){(n.apply(this,arguments)?ae:ue)(this,t)}}function Yr(t,n){var e=oe(t+"");if(arguments.length<2){for(var i=gn(this.node()),r=-1,o=e.length;++r<o;)if(!i.contains(e[r]))return!1;return!0}return this.each((typeof n=="function"?Lr:n?Br:Xr)(e,n))}function Hr(){this.textContent=""}function Fr(t){return function(){this.textContent=t}}function Vr(t){return function(){var n=t.apply(this,arguments);this.textContent=n??""}}function Gr(t){return arguments.length?this.each(t==null?Hr:(typeof t=="function"?Vr:Fr)(t)):this.node().textContent}function Ur(){this.innerHTML=""}function Kr(t){return function(){this.innerHTML=t}}function Qr(t){return function(){var n=t.apply(this,arguments);this.innerHTML=n??""}}function Zr(t){return arguments.length?this.each(t==null?Ur:(typeof t=="function"?Qr:Kr)(t)):this.node().innerHTML}function Wr(){this.nextSibling&&this.parentNode.appendChild(this)}function Jr(){return this.each(Wr)}function jr(){this.previousSibling&&this.parentNode.insertBefore(this,this.parentNode.firstChild)}function to(){return this.each(jr)}function no(t){var n=typeof t=="function"?t:ne(t);return this.select(function(){return this.appendChild(n.apply(this,arguments))})}function eo(){return null}function io(t,n){var e=typeof t=="function"?t:ne(t),i=n==null?eo:typeof n=="function"?n:Dt(n);return this.select(function(){return this.insertBefore(e.apply(this,arguments),i.apply(this,arguments)||null)})}function ro(){var t=this.parentNode;t&&t.removeChild(this)}function oo(){return this.each(ro)}function so(){var t=this.cloneNode(!1),n=this.parentNode;return n?n.insertBefore(t,this.nextSibling):t}function ao(){var t=this.cloneNode(!0),n=this.parentNode;return n?n.insertBefore(t,this.nextSibling):t}function uo(t){return this.select(t?ao:so)}function lo(t){return arguments.length?this.property("__data__",t):this.node().__data__}function co(t){return function(n){t.call(this,n,this.__data__)}}function ho(t){return t.trim().split(/^|\s+/).map(function(n){var e="",i=n.indexOf(".");return i>=0&&(e=n.slice(i+1),n=n.slice(0,i)),{type:n,name:e}})}function fo(t){return function(){var n=this.__on;if(n){for(var e=0,i=-1,r=n.length,o;e<r;++e)o=n[e],(!t.type||o.type===t.type)&&o.name===t.name?this.removeEventListener(o.type,o.listener,o.options):n[++i]=o;++i?n.length=i:delete this.__on}}}function _o(t,n,e){return function(){var i=this.__on,r,o=co(n);if(i){for(var s=0,a=i.length;s<a;++s)if((r=i[s]).type===t.type&&r.name===t.name){this.removeEventListener(r.type,r.listener,r.options),this.addEventListener(r.type,r.listener=o,r.options=e),r.value=n;return}}this.addEventListener(t.type,o,e),r={type:t.type,name:t.name,value:n,listener:o,options:e},i?i.push(r):this.__on=[r]}}function po(t,n,e){var i=ho(t+""),r,o=i.length,s;if(arguments.length<2){var a=this.node().__on;if(a){for(var u=0,l=a.length,c;u<l;++u)for(r=0,c=a[u];r<o;++r)if((s=i[r]).type===c.type&&s.name===c.name)return c.value}return}for(a=n?_o:fo,r=0;r<o;++r)this.each(a(i[r],n,e));return this}function le(t,n,e){var i=re(t),r=i.CustomEvent;typeof r=="function"?r=new r(n,e):(r=i.document.createEvent("Event"),e?(r.initEvent(n,e.bubbles,e.cancelable),r.detail=e.detail):r.initEvent(n,!1,!1)),t.dispatchEvent(r)}function go(t,n){return function(){return le(this,t,n)}}function mo(t,n){return function(){return le(this,t,n.apply(this,arguments))}}function yo(t,n){return this.each((typeof n=="function"?mo:go)(t,n))}function*vo(){for(var t=this._groups,n=0,e=t.length;n<e;++n)for(var i=t[n],r=0,o=i.length,s;r<o;++r)(s=i[r])&&(yield s)}var ce=[null];function O(t,n){this._groups=t,this._parents=n}function rt(){return new O([[document.documentElement]],ce)}function xo(){return this}O.prototype=rt.prototype={constructor:O,select:Vi,selectAll:Qi,selectChild:ji,selectChildren:ir,filter:rr,data:cr,enter:or,exit:fr,join:_r,merge:pr,selection:xo,order:gr,sort:dr,call:yr,nodes:vr,node:xr,size:wr,empty:br,each:Tr,attr:Cr,style:Or,property:Dr,classed:Yr,text:Gr,html:Zr,raise:Jr,lower:to,append:no,insert:io,remove:oo,clone:uo,datum:lo,on:po,dispatch:yo,[Symbol.iterator]:vo};function D(t){return typeof t=="string"?new O([[document.querySelector(t)]],[document.documentElement]):new O([[t]],ce)}var wo=0;function bo(){return new fn}function fn(){this._="@"+(++wo).toString(36)}fn.prototype=bo.prototype={constructor:fn,get:function(t){for(var n=this._;!(n in t);)if(!(t=t.parentNode))return;return t[n]},set:function(t,n){return t[this._]=n},remove:function(t){return this._ in t&&delete t[this._]},toString:function(){return this._}};function To(t){let n;for(;n=t.sourceEvent;)t=n;return t}function B(t,n){if(t=To(t),n===void 0&&(n=t.currentTarget),n){var e=n.ownerSVGElement||n;if(e.createSVGPoint){var i=e.createSVGPoint();return i.x=t.clientX,i.y=t.clientY,i=i.matrixTransform(n.getScreenCTM().inverse()),[i.x,i.y]}if(n.getBoundingClientRect){var r=n.getBoundingClientRect();return[t.clientX-r.left-n.clientLeft,t.clientY-r.top-n.clientTop]}}return[t.pageX,t.pageY]}var ko={value:()=>{}};function bt(){for(var t=0,n=arguments.length,e={},i;t<n;++t){if(!(i=arguments[t]+"")||i in e||/[\s.]/.test(i))throw new Error("illegal type: "+i);e[i]=[]}return new Bt(e)}function Bt(t){this._=t}function Mo(t,n){return t.trim().split(/^|\s+/).map(function(e){var i="",r=e.indexOf(".");if(r>=0&&(i=e.slice(r+1),e=e.slice(0,r)),e&&!n.hasOwnProperty(e))throw new Error("unknown type: "+e);return{type:e,name:i}})}Bt.prototype=bt.prototype={constructor:Bt,on:function(t,n){var e=this._,i=Mo(t+"",e),r,o=-1,s=i.length;if(arguments.length<2){for(;++o<s;)if((r=(t=i[o]).type)&&(r=No(e[r],t.name)))return r;return}if(n!=null&&typeof n!="function")throw new Error("invalid callback: "+n);for(;++o<s;)if(r=(t=i[o]).type)e[r]=he(e[r],t.name,n);else if(n==null)for(r in e)e[r]=he(e[r],t.name,null);return this},copy:function(){var t={},n=this._;for(var e in n)t[e]=n[e].slice();return new Bt(t)},call:function(t,n){if((r=arguments.length-2)>0)for(var e=new Array(r),i=0,r,o;i<r;++i)e[i]=arguments[i+2];if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(o=this._[t],i=0,r=o.length;i<r;++i)o[i].value.apply(n,e)},apply:function(t,n,e){if(!this._.hasOwnProperty(t))throw new Error("unknown type: "+t);for(var i=this._[t],r=0,o=i.length;r<o;++r)i[r].value.apply(n,e)}};function No(t,n){for(var e=0,i=t.length,r;e<i;++e)if((r=t[e]).name===n)return r.value}function he(t,n,e){for(var i=0,r=t.length;i<r;++i)if(t[i].name===n){t[i]=ko,t=t.slice(0,i).concat(t.slice(i+1));break}return e!=null&&t.push({name:n,value:e}),t}var dn={capture:!0,passive:!1};function mn(t){t.preventDefault(),t.stopImmediatePropagation()}function fe(t){var n=t.document.documentElement,e=D(t).on("dragstart.drag",mn,dn);"onselectstart"in n?e.on("selectstart.drag",mn,dn):(n.__noselect=n.style.MozUserSelect,n.style.MozUserSelect="none")}function _e(t,n){var e=t.document.documentElement,i=D(t).on("dragstart.drag",null);n&&(i.on("click.drag",mn,dn),setTimeout(function(){i.on("click.drag",null)},0)),"onselectstart"in e?i.on("selectstart.drag",null):(e.style.MozUserSelect=e.__noselect,delete e.__noselect)}function Ao(t,{sourceEvent:n,subject:e,target:i,identifier:r,active:o,x:s,y:a,dx:u,dy:l,dispatch:c}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},sourceEvent:{value:n,enumerable:!0,configurable:!0},subject:{value:e,enumerable:!0,configurable:!0},target:{value:i,enumerable:!0,configurable:!0},identifier:{value:r,enumerable:!0,configurable:!0},active:{value:o,enumerable:!0,configurable:!0},x:{value:s,enumerable:!0,configurable:!0},y:{value:a,enumerable:!0,configurable:!0},dx:{value:u,enumerable:!0,configurable:!0},dy:{value:l,enumerable:!0,configurable:!0},_:{value:c}})}Ao.prototype.on=function(){var t=this._.on.apply(this._,arguments);return t===this._?this:t};function dt(t,n,e){t.prototype=n.prototype=e,e.constructor=t}function Mt(t,n){var e=Object.create(t.prototype);for(var i in n)e[i]=n[i];return e}function tt(){}var ut=.7,gt=1/ut,_t="\\s*([+-]?\\d+)\\s*",Tt="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)\\s*",H="\\s*([+-]?(?:\\d*\\.)?\\d+(?:[eE][+-]?\\d+)?)%\\s*",Eo=/^#([0-9a-f]{3,8})$/,So=new RegExp(`^rgb\\(${_t},${_t},${_t}\\)$`),Co=new RegExp(`^rgb\\(${H},${H},${H}\\)$`),$o=new RegExp(`^rgba\\(${_t},${_t},${_t},${Tt}\\)$`),Io=new RegExp(`^rgba\\(${H},${H},${H},${Tt}\\)$`),Ro=new RegExp(`^hsl\\(${Tt},${H},${H}\\)$`),Oo=new RegExp(`^hsla\\(${Tt},${H},${H},${Tt}\\)$`),pe={aliceblue:15792383,antiquewhite:16444375,aqua:65535,aquamarine:8388564,azure:15794175,beige:16119260,bisque:16770244,black:0,blanchedalmond:16772045,blue:255,blueviolet:9055202,brown:10824234,burlywood:14596231,cadetblue:6266528,chartreuse:8388352,chocolate:13789470,coral:16744272,cornflowerblue:6591981,cornsilk:16775388,crimson:14423100,cyan:65535,darkblue:139,darkcyan:35723,darkgoldenrod:12092939,darkgray:11119017,darkgreen:25600,darkgrey:11119017,darkkhaki:12433259,darkmagenta:9109643,darkolivegreen:5597999,darkorange:16747520,darkorchid:10040012,darkred:9109504,darksalmon:15308410,darkseagreen:9419919,darkslateblue:4734347,darkslategray:3100495,darkslategrey:3100495,darkturquoise:52945,darkviolet:9699539,deeppink:16716947,deepskyblue:49151,dimgray:6908265,dimgrey:6908265,dodgerblue:2003199,firebrick:11674146,floralwhite:16775920,forestgreen:2263842,fuchsia:16711935,gainsboro:14474460,ghostwhite:16316671,gold:16766720,goldenrod:14329120,gray:8421504,green:32768,greenyellow:11403055,grey:8421504,honeydew:15794160,hotpink:16738740,indianred:13458524,indigo:4915330,ivory:16777200,khaki:15787660,lavender:15132410,lavenderblush:16773365,lawngreen:8190976,lemonchiffon:16775885,lightblue:11393254,lightcoral:15761536,lightcyan:14745599,lightgoldenrodyellow:16448210,lightgray:13882323,lightgreen:9498256,lightgrey:13882323,lightpink:16758465,lightsalmon:16752762,lightseagreen:2142890,lightskyblue:8900346,lightslategray:7833753,lightslategrey:7833753,lightsteelblue:11584734,lightyellow:16777184,lime:65280,limegreen:3329330,linen:16445670,magenta:16711935,maroon:8388608,mediumaquamarine:6737322,mediumblue:205,mediumorchid:12211667,mediumpurple:9662683,mediumseagreen:3978097,mediumslateblue:8087790,mediumspringgreen:64154,mediumturquoise:4772300,mediumvioletred:13047173,midnightblue:1644912,mintcream:16121850,mistyrose:16770273,moccasin:16770229,navajowhite:16768685,navy:128,oldlace:16643558,olive:8421376,olivedrab:7048739,orange:16753920,orangered:16729344,orchid:14315734,palegoldenrod:15657130,palegreen:10025880,paleturquoise:11529966,palevioletred:14381203,papayawhip:16773077,peachpuff:16767673,peru:13468991,pink:16761035,plum:14524637,powderblue:11591910,purple:8388736,rebeccapurple:6697881,red:16711680,rosybrown:12357519,royalblue:4286945,saddlebrown:9127187,salmon:16416882,sandybrown:16032864,seagreen:3050327,seashell:16774638,sienna:10506797,silver:12632256,skyblue:8900331,slateblue:6970061,slategray:7372944,slategrey:7372944,snow:16775930,springgreen:65407,steelblue:4620980,tan:13808780,teal:32896,thistle:14204888,tomato:16737095,turquoise:4251856,violet:15631086,wheat:16113331,white:16777215,whitesmoke:16119285,yellow:16776960,yellowgreen:10145074};dt(tt,lt,{copy(t){return Object.assign(new this.constructor,this,t)},displayable(){return this.rgb().displayable()},hex:ge,formatHex:ge,formatHex8:zo,formatHsl:Po,formatRgb:de,toString:de});function ge(){return this.rgb().formatHex()}function zo(){return this.rgb().formatHex8()}function Po(){return Me(this).formatHsl()}function de(){return this.rgb().formatRgb()}function lt(t){var n,e;return t=(t+"").trim().toLowerCase(),(n=Eo.exec(t))?(e=n[1].length,n=parseInt(n[1],16),e===6?me(n):e===3?new A(n>>8&15|n>>4&240,n>>4&15|n&240,(n&15)<<4|n&15,1):e===8?Xt(n>>24&255,n>>16&255,n>>8&255,(n&255)/255):e===4?Xt(n>>12&15|n>>8&240,n>>8&15|n>>4&240,n>>4&15|n&240,((n&15)<<4|n&15)/255):null):(n=So.exec(t))?new A(n[1],n[2],n[3],1):(n=Co.exec(t))?new A(n[1]*255/100,n[2]*255/100,n[3]*255/100,1):(n=$o.exec(t))?Xt(n[1],n[2],n[3],n[4]):(n=Io.exec(t))?Xt(n[1]*255/100,n[2]*255/100,n[3]*255/100,n[4]):(n=Ro.exec(t))?xe(n[1],n[2]/100,n[3]/100,1):(n=Oo.exec(t))?xe(n[1],n[2]/100,n[3]/100,n[4]):pe.hasOwnProperty(t)?me(pe[t]):t==="transparent"?new A(NaN,NaN,NaN,0):null}function me(t){return new A(t>>16&255,t>>8&255,t&255,1)}function Xt(t,n,e,i){return i<=0&&(t=n=e=NaN),new A(t,n,e,i)}function Tn(t){return t instanceof tt||(t=lt(t)),t?(t=t.rgb(),new A(t.r,t.g,t.b,t.opacity)):new A}function ct(t,n,e,i){return arguments.length===1?Tn(t):new A(t,n,e,i??1)}function A(t,n,e,i){this.r=+t,this.g=+n,this.b=+e,this.opacity=+i}dt(A,ct,Mt(tt,{brighter(t){return t=t==null?gt:Math.pow(gt,t),new A(this.r*t,this.g*t,this.b*t,this.opacity)},darker(t){return t=t==null?ut:Math.pow(ut,t),new A(this.r*t,this.g*t,this.b*t,this.opacity)},rgb(){return this},clamp(){return new A(st(this.r),st(this.g),st(this.b),Yt(this.opacity))},displayable(){return-.5<=this.r&&this.r<255.5&&-.5<=this.g&&this.g<255.5&&-.5<=this.b&&this.b<255.5&&0<=this.opacity&&this.opacity<=1},hex:ye,formatHex:ye,formatHex8:qo,formatRgb:ve,toString:ve}));function ye(){return`#${ot(this.r)}${ot(this.g)}${ot(this.b)}`}function qo(){return`#${ot(this.r)}${ot(this.g)}${ot(this.b)}${ot((isNaN(this.opacity)?1:this.opacity)*255)}`}function ve(){let t=Yt(this.opacity);return`${t===1?"rgb(":"rgba("}${st(this.r)}, ${st(this.g)}, ${st(this.b)}${t===1?")":`, ${t})`}`}function Yt(t){return isNaN(t)?1:Math.max(0,Math.min(1,t))}function st(t){return Math.max(0,Math.min(255,Math.round(t)||0))}function ot(t){return t=st(t),(t<16?"0":"")+t.toString(16)}function xe(t,n,e,i){return i<=0?t=n=e=NaN:e<=0||e>=1?t=n=NaN:n<=0&&(t=NaN),new X(t,n,e,i)}function Me(t){if(t instanceof X)return new X(t.h,t.s,t.l,t.opacity);if(t instanceof tt||(t=lt(t)),!t)return new X;if(t instanceof X)return t;t=t.rgb();var n=t.r/255,e=t.g/255,i=t.b/255,r=Math.min(n,e,i),o=Math.max(n,e,i),s=NaN,a=o-r,u=(o+r)/2;return a?(n===o?s=(e-i)/a+(e<i)*6:e===o?s=(i-n)/a+2:s=(n-e)/a+4,a/=u<.5?o+r:2-o-r,s*=60):a=u>0&&u<1?0:s,new X(s,a,u,t.opacity)}function Ft(t,n,e,i){return arguments.length===1?Me(t):new X(t,n,e,i??1)}function X(t,n,e,i){this.h=+t,this.s=+n,this.l=+e,this.opacity=+i}dt(X,Ft,Mt(tt,{brighter(t){return t=t==null?gt:Math.pow(gt,t),new X(this.h,this.s,this.l*t,this.opacity)},darker(t){return t=t==null?ut:Math.pow(ut,t),new X(this.h,this.s,this.l*t,this.opacity)},rgb(){var t=this.h%360+(this.h<0)*360,n=isNaN(t)||isNaN(this.s)?0:this.s,e=this.l,i=e+(e<.5?e:1-e)*n,r=2*e-i;return new A(yn(t>=240?t-240:t+120,r,i),yn(t,r,i),yn(t<120?t+240:t-120,r,i),this.opacity)},clamp(){return new X(we(this.h),Lt(this.s),Lt(this.l),Yt(this.opacity))},displayable(){return(0<=this.s&&this.s<=1||isNaN(this.s))&&0<=this.l&&this.l<=1&&0<=this.opacity&&this.opacity<=1},formatHsl(){let t=Yt(this.opacity);return`${t===1?"hsl(":"hsla("}${we(this.h)}, ${Lt(this.s)*100}%, ${Lt(this.l)*100}%${t===1?")":`, ${t})`}`}}));function we(t){return t=(t||0)%360,t<0?t+360:t}function Lt(t){return Math.max(0,Math.min(1,t||0))}function yn(t,n,e){return(t<60?n+(e-n)*t/60:t<180?e:t<240?n+(e-n)*(240-t)/60:n)*255}var Ne=Math.PI/180,Ae=180/Math.PI,Ht=18,Ee=.96422,Se=1,Ce=.82521,$e=4/29,pt=6/29,Ie=3*pt*pt,Do=pt*pt*pt;function Re(t){if(t instanceof F)return new F(t.l,t.a,t.b,t.opacity);if(t instanceof K)return ze(t);t instanceof A||(t=Tn(t));var n=bn(t.r),e=bn(t.g),i=bn(t.b),r=vn((.2225045*n+.7168786*e+.0606169*i)/Se),o,s;return n===e&&e===i?o=s=r:(o=vn((.4360747*n+.3850649*e+.1430804*i)/Ee),s=vn((.0139322*n+.0971045*e+.7141733*i)/Ce)),new F(116*r-16,500*(o-r),200*(r-s),t.opacity)}function Oe(t,n,e,i){return arguments.length===1?Re(t):new F(t,n,e,i??1)}function F(t,n,e,i){this.l=+t,this.a=+n,this.b=+e,this.opacity=+i}dt(F,Oe,Mt(tt,{brighter(t){return new F(this.l+Ht*(t??1),this.a,this.b,this.opacity)},darker(t){return new F(this.l-Ht*(t??1),this.a,this.b,this.opacity)},rgb(){var t=(this.l+16)/116,n=isNaN(this.a)?t:t+this.a/500,e=isNaN(this.b)?t:t-this.b/200;return n=Ee*xn(n),t=Se*xn(t),e=Ce*xn(e),new A(wn(3.1338561*n-1.6168667*t-.4906146*e),wn(-.9787684*n+1.9161415*t+.033454*e),wn(.0719453*n-.2289914*t+1.4052427*e),this.opacity)}}));function vn(t){return t>Do?Math.pow(t,1/3):t/Ie+$e}function xn(t){return t>pt?t*t*t:Ie*(t-$e)}function wn(t){return 255*(t<=.0031308?12.92*t:1.055*Math.pow(t,1/2.4)-.055)}function bn(t){return(t/=255)<=.04045?t/12.92:Math.pow((t+.055)/1.055,2.4)}function Bo(t){if(t instanceof K)return new K(t.h,t.c,t.l,t.opacity);if(t instanceof F||(t=Re(t)),t.a===0&&t.b===0)return new K(NaN,0<t.l&&t.l<100?0:NaN,t.l,t.opacity);var n=Math.atan2(t.b,t.a)*Ae;return new K(n<0?n+360:n,Math.sqrt(t.a*t.a+t.b*t.b),t.l,t.opacity)}function Vt(t,n,e,i){return arguments.length===1?Bo(t):new K(t,n,e,i??1)}function K(t,n,e,i){this.h=+t,this.c=+n,this.l=+e,this.opacity=+i}function ze(t){if(isNaN(t.h))return new F(t.l,0,0,t.opacity);var n=t.h*Ne;return new F(t.l,Math.cos(n)*t.c,Math.sin(n)*t.c,t.opacity)}dt(K,Vt,Mt(tt,{brighter(t){return new K(this.h,this.c,this.l+Ht*(t??1),this.opacity)},darker(t){return new K(this.h,this.c,this.l-Ht*(t??1),this.opacity)},rgb(){return ze(this).rgb()}}));var Pe=-.14861,kn=1.78277,Mn=-.29227,Gt=-.90649,kt=1.97294,be=kt*Gt,Te=kt*kn,ke=kn*Mn-Gt*Pe;function Xo(t){if(t instanceof at)return new at(t.h,t.s,t.l,t.opacity);t instanceof A||(t=Tn(t));var n=t.r/255,e=t.g/255,i=t.b/255,r=(ke*i+be*n-Te*e)/(ke+be-Te),o=i-r,s=(kt*(e-r)-Mn*o)/Gt,a=Math.sqrt(s*s+o*o)/(kt*r*(1-r)),u=a?Math.atan2(s,o)*Ae-120:NaN;return new at(u<0?u+360:u,a,r,t.opacity)}function Ut(t,n,e,i){return arguments.length===1?Xo(t):new at(t,n,e,i??1)}function at(t,n,e,i){this.h=+t,this.s=+n,this.l=+e,this.opacity=+i}dt(at,Ut,Mt(tt,{brighter(t){return t=t==null?gt:Math.pow(gt,t),new at(this.h,this.s,this.l*t,this.opacity)},darker(t){return t=t==null?ut:Math.pow(ut,t),new at(this.h,this.s,this.l*t,this.opacity)},rgb(){var t=isNaN(this.h)?0:(this.h+120)*Ne,n=+this.l,e=isNaN(this.s)?0:this.s*n*(1-n),i=Math.cos(t),r=Math.sin(t);return new A(255*(n+e*(Pe*i+kn*r)),255*(n+e*(Mn*i+Gt*r)),255*(n+e*(kt*i)),this.opacity)}}));function Be(t,n,e,i,r){var o=t*t,s=o*t;return((1-3*t+3*o-s)*n+(4-6*o+3*s)*e+(1+3*t+3*o-3*s)*i+s*r)/6}function Lo(t){var n=t.length-1;return function(e){var i=e<=0?e=0:e>=1?(e=1,n-1):Math.floor(e*n),r=t[i],o=t[i+1],s=i>0?t[i-1]:2*r-o,a=i<n-1?t[i+2]:2*o-r;return Be((e-i/n)*n,s,r,o,a)}}function Yo(t){var n=t.length;return function(e){var i=Math.floor(((e%=1)<0?++e:e)*n),r=t[(i+n-1)%n],o=t[i%n],s=t[(i+1)%n],a=t[(i+2)%n];return Be((e-i/n)*n,r,o,s,a)}}var Sn=t=>()=>t;function Xe(t,n){return function(e){return t+e*n}}function Ho(t,n,e){return t=Math.pow(t,e),n=Math.pow(n,e)-t,e=1/e,function(i){return Math.pow(t+i*n,e)}}function Cn(t,n){var e=n-t;return e?Xe(t,e>180||e<-180?e-360*Math.round(e/360):e):Sn(isNaN(t)?n:t)}function Fo(t){return(t=+t)==1?R:function(n,e){return e-n?Ho(n,e,t):Sn(isNaN(n)?e:n)}}function R(t,n){var e=n-t;return e?Xe(t,e):Sn(isNaN(t)?n:t)}var $n=(function t(n){var e=Fo(n);function i(r,o){var s=e((r=ct(r)).r,(o=ct(o)).r),a=e(r.g,o.g),u=e(r.b,o.b),l=R(r.opacity,o.opacity);return function(c){return r.r=s(c),r.g=a(c),r.b=u(c),r.opacity=l(c),r+""}}return i.gamma=t,i})(1);function Le(t){return function(n){var e=n.length,i=new Array(e),r=new Array(e),o=new Array(e),s,a;for(s=0;s<e;++s)a=ct(n[s]),i[s]=a.r||0,r[s]=a.g||0,o[s]=a.b||0;return i=t(i),r=t(r),o=t(o),a.opacity=1,function(u){return a.r=i(u),a.g=r(u),a.b=o(u),a+""}}}var Ye=Le(Lo),Va=Le(Yo);function Q(t,n){return t=+t,n=+n,function(e){return t*(1-e)+n*e}}var An=/[-+]?(?:\d+\.?\d*|\.?\d+)(?:[eE][-+]?\d+)?/g,Nn=new RegExp(An.source,"g");function Vo(t){return function(){return t}}function Go(t){return function(n){return t(n)+""}}function He(t,n){var e=An.lastIndex=Nn.lastIndex=0,i,r,o,s=-1,a=[],u=[];for(t=t+"",n=n+"";(i=An.exec(t))&&(r=Nn.exec(n));)(o=r.index)>e&&(o=n.slice(e,o),a[s]?a[s]+=o:a[++s]=o),(i=i[0])===(r=r[0])?a[s]?a[s]+=r:a[++s]=r:(a[++s]=null,u.push({i:s,x:Q(i,r)})),e=Nn.lastIndex;return e<n.length&&(o=n.slice(e),a[s]?a[s]+=o:a[++s]=o),a.length<2?u[0]?Go(u[0].x):Vo(n):(n=u.length,function(l){for(var c=0,p;c<n;++c)a[(p=u[c]).i]=p.x(l);return a.join("")})}var qe=180/Math.PI,En={translateX:0,translateY:0,rotate:0,skewX:0,scaleX:1,scaleY:1};function Fe(t,n,e,i,r,o){var s,a,u;return(s=Math.sqrt(t*t+n*n))&&(t/=s,n/=s),(u=t*e+n*i)&&(e-=t*u,i-=n*u),(a=Math.sqrt(e*e+i*i))&&(e/=a,i/=a,u/=a),t*i<n*e&&(t=-t,n=-n,u=-u,s=-s),{translateX:r,translateY:o,rotate:Math.atan2(n,t)*qe,skewX:Math.atan(u)*qe,scaleX:s,scaleY:a}}var Kt;function Uo(t){let n=new(typeof DOMMatrix=="function"?DOMMatrix:WebKitCSSMatrix)(t+"");return n.isIdentity?En:Fe(n.a,n.b,n.c,n.d,n.e,n.f)}function Ko(t){return t==null||(Kt||(Kt=document.createElementNS("http://www.w3.org/2000/svg","g")),Kt.setAttribute("transform",t),!(t=Kt.transform.baseVal.consolidate()))?En:(t=t.matrix,Fe(t.a,t.b,t.c,t.d,t.e,t.f))}function Ve(t,n,e,i){function r(l){return l.length?l.pop()+" ":""}function o(l,c,p,_,g,b){if(l!==p||c!==_){var T=g.push("translate(",null,n,null,e);b.push({i:T-4,x:Q(l,p)},{i:T-2,x:Q(c,_)})}else(p||_)&&g.push("translate("+p+n+_+e)}function s(l,c,p,_){l!==c?(l-c>180?c+=360:c-l>180&&(l+=360),_.push({i:p.push(r(p)+"rotate(",null,i)-2,x:Q(l,c)})):c&&p.push(r(p)+"rotate("+c+i)}function a(l,c,p,_){l!==c?_.push({i:p.push(r(p)+"skewX(",null,i)-2,x:Q(l,c)}):c&&p.push(r(p)+"skewX("+c+i)}function u(l,c,p,_,g,b){if(l!==p||c!==_){var T=g.push(r(g)+"scale(",null,",",null,")");b.push({i:T-4,x:Q(l,p)},{i:T-2,x:Q(c,_)})}else(p!==1||_!==1)&&g.push(r(g)+"scale("+p+","+_+")")}return function(l,c){var p=[],_=[];return l=t(l),c=t(c),o(l.translateX,l.translateY,c.translateX,c.translateY,p,_),s(l.rotate,c.rotate,p,_),a(l.skewX,c.skewX,p,_),u(l.scaleX,l.scaleY,c.scaleX,c.scaleY,p,_),l=c=null,function(g){for(var b=-1,T=_.length,N;++b<T;)p[(N=_[b]).i]=N.x(g);return p.join("")}}}var Ge=Ve(Uo,"px, ","px)","deg)"),Ue=Ve(Ko,", ",")",")"),Qo=1e-12;function De(t){return((t=Math.exp(t))+1/t)/2}function Zo(t){return((t=Math.exp(t))-1/t)/2}function Wo(t){return((t=Math.exp(2*t))-1)/(t+1)}var Ke=(function t(n,e,i){function r(o,s){var a=o[0],u=o[1],l=o[2],c=s[0],p=s[1],_=s[2],g=c-a,b=p-u,T=g*g+b*b,N,y;if(T<Qo)y=Math.log(_/l)/n,N=function(j){return[a+j*g,u+j*b,l*Math.exp(n*j*y)]};else{var E=Math.sqrt(T),S=(_*_-l*l+i*T)/(2*l*e*E),$=(_*_-l*l-i*T)/(2*_*e*E),I=Math.log(Math.sqrt(S*S+1)-S),z=Math.log(Math.sqrt($*$+1)-$);y=(z-I)/n,N=function(j){var Ot=j*y,zt=De(I),Pt=l/(e*E)*(zt*Wo(n*Ot+I)-Zo(I));return[a+Pt*g,u+Pt*b,l*zt/De(n*Ot+I)]}}return N.duration=Math.abs(y)*1e3*n/Math.SQRT2,N}return r.rho=function(o){var s=Math.max(.001,+o),a=s*s,u=a*a;return t(s,a,u)},r})(Math.SQRT2,2,4);function Qe(t){return function(n,e){var i=t((n=Ft(n)).h,(e=Ft(e)).h),r=R(n.s,e.s),o=R(n.l,e.l),s=R(n.opacity,e.opacity);return function(a){return n.h=i(a),n.s=r(a),n.l=o(a),n.opacity=s(a),n+""}}}var Ga=Qe(Cn),Ua=Qe(R);function Ze(t){return function(n,e){var i=t((n=Vt(n)).h,(e=Vt(e)).h),r=R(n.c,e.c),o=R(n.l,e.l),s=R(n.opacity,e.opacity);return function(a){return n.h=i(a),n.c=r(a),n.l=o(a),n.opacity=s(a),n+""}}}var Ka=Ze(Cn),Qa=Ze(R);function We(t){return(function n(e){e=+e;function i(r,o){var s=t((r=Ut(r)).h,(o=Ut(o)).h),a=R(r.s,o.s),u=R(r.l,o.l),l=R(r.opacity,o.opacity);return function(c){return r.h=s(c),r.s=a(c),r.l=u(Math.pow(c,e)),r.opacity=l(c),r+""}}return i.gamma=n,i})(1)}var Za=We(Cn),Wa=We(R);var mt=0,At=0,Nt=0,je=1e3,Qt,Et,Zt=0,ht=0,Jt=0,St=typeof performance=="object"&&performance.now?performance:Date,ti=typeof window=="object"&&window.requestAnimationFrame?window.requestAnimationFrame.bind(window):function(t){setTimeout(t,17)};function jt(){return ht||(ti(Jo),ht=St.now()+Jt)}function Jo(){ht=0}function Wt(){this._call=this._time=this._next=null}Wt.prototype=Rn.prototype={constructor:Wt,restart:function(t,n,e){if(typeof t!="function")throw new TypeError("callback is not a function");e=(e==null?jt():+e)+(n==null?0:+n),!this._next&&Et!==this&&(Et?Et._next=this:Qt=this,Et=this),this._call=t,this._time=e,In()},stop:function(){this._call&&(this._call=null,this._time=1/0,In())}};function Rn(t,n,e){var i=new Wt;return i.restart(t,n,e),i}function jo(){jt(),++mt;for(var t=Qt,n;t;)(n=ht-t._time)>=0&&t._call.call(void 0,n),t=t._next;--mt}function Je(){ht=(Zt=St.now())+Jt,mt=At=0;try{jo()}finally{mt=0,ns(),ht=0}}function ts(){var t=St.now(),n=t-Zt;n>je&&(Jt-=n,Zt=t)}function ns(){for(var t,n=Qt,e,i=1/0;n;)n._call?(i>n._time&&(i=n._time),t=n,n=n._next):(e=n._next,n._next=null,n=t?t._next=e:Qt=e);Et=t,In(i)}function In(t){if(!mt){At&&(At=clearTimeout(At));var n=t-ht;n>24?(t<1/0&&(At=setTimeout(Je,Math.ceil(t-St.now()-Jt)+1)),Nt&&(Nt=clearInterval(Nt))):(Nt||(Zt=St.now(),Nt=setInterval(ts,je)),mt=1,ti(Je))}}function On(t,n,e){var i=new Wt;return n=n==null?0:+n,i.restart(r=>{i.stop(),t(r+n)},n,e),i}function ei(t){return((t*=2)<=1?t*t*t:(t-=2)*t*t+2)/2}var zn=3,tu=(function t(n){n=+n;function e(i){return Math.pow(i,n)}return e.exponent=t,e})(zn),nu=(function t(n){n=+n;function e(i){return 1-Math.pow(1-i,n)}return e.exponent=t,e})(zn),eu=(function t(n){n=+n;function e(i){return((i*=2)<=1?Math.pow(i,n):2-Math.pow(2-i,n))/2}return e.exponent=t,e})(zn),es=Math.PI,iu=es/2;function tn(t){return(Math.pow(2,-10*t)-.0009765625)*1.0009775171065494}var ni=4/11,ru=6/11,ou=8/11,su=3/4,au=9/11,uu=10/11,lu=15/16,cu=21/22,hu=63/64,fu=1/ni/ni;var Pn=1.70158,_u=(function t(n){n=+n;function e(i){return(i=+i)*i*(n*(i-1)+i)}return e.overshoot=t,e})(Pn),pu=(function t(n){n=+n;function e(i){return--i*i*((i+1)*n+i)+1}return e.overshoot=t,e})(Pn),gu=(function t(n){n=+n;function e(i){return((i*=2)<1?i*i*((n+1)*i-n):(i-=2)*i*((n+1)*i+n)+2)/2}return e.overshoot=t,e})(Pn),yt=2*Math.PI,qn=1,Dn=.3,du=(function t(n,e){var i=Math.asin(1/(n=Math.max(1,n)))*(e/=yt);function r(o){return n*tn(- --o)*Math.sin((i-o)/e)}return r.amplitude=function(o){return t(o,e*yt)},r.period=function(o){return t(n,o)},r})(qn,Dn),mu=(function t(n,e){var i=Math.asin(1/(n=Math.max(1,n)))*(e/=yt);function r(o){return 1-n*tn(o=+o)*Math.sin((o+i)/e)}return r.amplitude=function(o){return t(o,e*yt)},r.period=function(o){return t(n,o)},r})(qn,Dn),yu=(function t(n,e){var i=Math.asin(1/(n=Math.max(1,n)))*(e/=yt);function r(o){return((o=o*2-1)<0?n*tn(-o)*Math.sin((i-o)/e):2-n*tn(o)*Math.sin((i+o)/e))/2}return r.amplitude=function(o){return t(o,e*yt)},r.period=function(o){return t(n,o)},r})(qn,Dn);var is=bt("start","end","cancel","interrupt"),rs=[],oi=0,ii=1,Bn=2,nn=3,ri=4,Xn=5,en=6;function rn(t,n,e,i,r,o){var s=t.__transition;if(!s)t.__transition={};else if(e in s)return;os(t,e,{name:n,index:i,group:r,on:is,tween:rs,time:o.time,delay:o.delay,duration:o.duration,ease:o.ease,timer:null,state:oi})}function Ln(t,n){var e=L(t,n);if(e.state>oi)throw new Error("too late; already scheduled");return e}function V(t,n){var e=L(t,n);if(e.state>nn)throw new Error("too late; already running");return e}function L(t,n){var e=t.__transition;if(!e||!(e=e[n]))throw new Error("transition not found");return e}function os(t,n,e){var i=t.__transition,r;i[n]=e,e.timer=Rn(o,0,e.time);function o(l){e.state=ii,e.timer.restart(s,e.delay,e.time),e.delay<=l&&s(l-e.delay)}function s(l){var c,p,_,g;if(e.state!==ii)return u();for(c in i)if(g=i[c],g.name===e.name){if(g.state===nn)return On(s);g.state===ri?(g.state=en,g.timer.stop(),g.on.call("interrupt",t,t.__data__,g.index,g.group),delete i[c]):+c<n&&(g.state=en,g.timer.stop(),g.on.call("cancel",t,t.__data__,g.index,g.group),delete i[c])}if(On(function(){e.state===nn&&(e.state=ri,e.timer.restart(a,e.delay,e.time),a(l))}),e.state=Bn,e.on.call("start",t,t.__data__,e.index,e.group),e.state===Bn){for(e.state=nn,r=new Array(_=e.tween.length),c=0,p=-1;c<_;++c)(g=e.tween[c].value.call(t,t.__data__,e.index,e.group))&&(r[++p]=g);r.length=p+1}}function a(l){for(var c=l<e.duration?e.ease.call(null,l/e.duration):(e.timer.restart(u),e.state=Xn,1),p=-1,_=r.length;++p<_;)r[p].call(t,c);e.state===Xn&&(e.on.call("end",t,t.__data__,e.index,e.group),u())}function u(){e.state=en,e.timer.stop(),delete i[n];for(var l in i)return;delete t.__transition}}function Ct(t,n){var e=t.__transition,i,r,o=!0,s;if(e){n=n==null?null:n+"";for(s in e){if((i=e[s]).name!==n){o=!1;continue}r=i.state>Bn&&i.state<Xn,i.state=en,i.timer.stop(),i.on.call(r?"interrupt":"cancel",t,t.__data__,i.index,i.group),delete e[s]}o&&delete t.__transition}}function ss(t){return this.each(function(){Ct(this,t)})}function as(t,n){var e,i;return function(){var r=V(this,t),o=r.tween;if(o!==e){i=e=o;for(var s=0,a=i.length;s<a;++s)if(i[s].name===n){i=i.slice(),i.splice(s,1);break}}r.tween=i}}function us(t,n,e){var i,r;if(typeof e!="function")throw new Error;return function(){var o=V(this,t),s=o.tween;if(s!==i){r=(i=s).slice();for(var a={name:n,value:e},u=0,l=r.length;u<l;++u)if(r[u].name===n){r[u]=a;break}u===l&&r.push(a)}o.tween=r}}function ls(t,n){var e=this._id;if(t+="",arguments.length<2){for(var i=L(this.node(),e).tween,r=0,o=i.length,s;r<o;++r)if((s=i[r]).name===t)return s.value;return null}return this.each((n==null?as:us)(e,t,n))}function Yn(t,n,e){var i=t._id;return t.each(function(){var r=V(this,i);(r.value||(r.value={}))[n]=e.apply(this,arguments)}),function(r){return L(r,i).value[n]}}function si(t,n){var e;return(typeof n=="number"?Q:n instanceof lt?$n:(e=lt(n))?(n=e,$n):He)(t,n)}function cs(t){return function(){this.removeAttribute(t)}}function hs(t){return function(){this.removeAttributeNS(t.space,t.local)}}function fs(t,n,e){var i,r=e+"",o;return function(){var s=this.getAttribute(t);return s===r?null:s===i?o:o=n(i=s,e)}}function _s(t,n,e){var i,r=e+"",o;return function(){var s=this.getAttributeNS(t.space,t.local);return s===r?null:s===i?o:o=n(i=s,e)}}function ps(t,n,e){var i,r,o;return function(){var s,a=e(this),u;return a==null?void this.removeAttribute(t):(s=this.getAttribute(t),u=a+"",s===u?null:s===i&&u===r?o:(r=u,o=n(i=s,a)))}}function gs(t,n,e){var i,r,o;return function(){var s,a=e(this),u;return a==null?void this.removeAttributeNS(t.space,t.local):(s=this.getAttributeNS(t.space,t.local),u=a+"",s===u?null:s===i&&u===r?o:(r=u,o=n(i=s,a)))}}function ds(t,n){var e=wt(t),i=e==="transform"?Ue:si;return this.attrTween(t,typeof n=="function"?(e.local?gs:ps)(e,i,Yn(this,"attr."+t,n)):n==null?(e.local?hs:cs)(e):(e.local?_s:fs)(e,i,n))}function ms(t,n){return function(e){this.setAttribute(t,n.call(this,e))}}function ys(t,n){return function(e){this.setAttributeNS(t.space,t.local,n.call(this,e))}}function vs(t,n){var e,i;function r(){var o=n.apply(this,arguments);return o!==i&&(e=(i=o)&&ys(t,o)),e}return r._value=n,r}function xs(t,n){var e,i;function r(){var o=n.apply(this,arguments);return o!==i&&(e=(i=o)&&ms(t,o)),e}return r._value=n,r}function ws(t,n){var e="attr."+t;if(arguments.length<2)return(e=this.tween(e))&&e._value;if(n==null)return this.tween(e,null);if(typeof n!="function")throw new Error;var i=wt(t);return this.tween(e,(i.local?vs:xs)(i,n))}function bs(t,n){return function(){Ln(this,t).delay=+n.apply(this,arguments)}}function Ts(t,n){return n=+n,function(){Ln(this,t).delay=n}}function ks(t){var n=this._id;return arguments.length?this.each((typeof t=="function"?bs:Ts)(n,t)):L(this.node(),n).delay}function Ms(t,n){return function(){V(this,t).duration=+n.apply(this,arguments)}}function Ns(t,n){return n=+n,function(){V(this,t).duration=n}}function As(t){var n=this._id;return arguments.length?this.each((typeof t=="function"?Ms:Ns)(n,t)):L(this.node(),n).duration}function Es(t,n){if(typeof n!="function")throw new Error;return function(){V(this,t).ease=n}}function Ss(t){var n=this._id;return arguments.length?this.each(Es(n,t)):L(this.node(),n).ease}function Cs(t,n){return function(){var e=n.apply(this,arguments);if(typeof e!="function")throw new Error;V(this,t).ease=e}}function $s(t){if(typeof t!="function")throw new Error;return this.each(Cs(this._id,t))}function Is(t){typeof t!="function"&&(t=pn(t));for(var n=this._groups,e=n.length,i=new Array(e),r=0;r<e;++r)for(var o=n[r],s=o.length,a=i[r]=[],u,l=0;l<s;++l)(u=o[l])&&t.call(u,u.__data__,l,o)&&a.push(u);return new W(i,this._parents,this._name,this._id)}function Rs(t){if(t._id!==this._id)throw new Error;for(var n=this._groups,e=t._groups,i=n.length,r=e.length,o=Math.min(i,r),s=new Array(i),a=0;a<o;++a)for(var u=n[a],l=e[a],c=u.length,p=s[a]=new Array(c),_,g=0;g<c;++g)(_=u[g]||l[g])&&(p[g]=_);for(;a<i;++a)s[a]=n[a];return new W(s,this._parents,this._name,this._id)}function Os(t){return(t+"").trim().split(/^|\s+/).every(function(n){var e=n.indexOf(".");return e>=0&&(n=n.slice(0,e)),!n||n==="start"})}function zs(t,n,e){var i,r,o=Os(n)?Ln:V;return function(){var s=o(this,t),a=s.on;a!==i&&(r=(i=a).copy()).on(n,e),s.on=r}}function Ps(t,n){var e=this._id;return arguments.length<2?L(this.node(),e).on.on(t):this.each(zs(e,t,n))}function qs(t){return function(){var n=this.parentNode;for(var e in this.__transition)if(+e!==t)return;n&&n.removeChild(this)}}function Ds(){return this.on("end.remove",qs(this._id))}function Bs(t){var n=this._name,e=this._id;typeof t!="function"&&(t=Dt(t));for(var i=this._groups,r=i.length,o=new Array(r),s=0;s<r;++s)for(var a=i[s],u=a.length,l=o[s]=new Array(u),c,p,_=0;_<u;++_)(c=a[_])&&(p=t.call(c,c.__data__,_,a))&&("__data__"in c&&(p.__data__=c.__data__),l[_]=p,rn(l[_],n,e,_,l,L(c,e)));return new W(o,this._parents,n,e)}function Xs(t){var n=this._name,e=this._id;typeof t!="function"&&(t=_n(t));for(var i=this._groups,r=i.length,o=[],s=[],a=0;a<r;++a)for(var u=i[a],l=u.length,c,p=0;p<l;++p)if(c=u[p]){for(var _=t.call(c,c.__data__,p,u),g,b=L(c,e),T=0,N=_.length;T<N;++T)(g=_[T])&&rn(g,n,e,T,_,b);o.push(_),s.push(c)}return new W(o,s,n,e)}var Ls=rt.prototype.constructor;function Ys(){return new Ls(this._groups,this._parents)}function Hs(t,n){var e,i,r;return function(){var o=it(this,t),s=(this.style.removeProperty(t),it(this,t));return o===s?null:o===e&&s===i?r:r=n(e=o,i=s)}}function ai(t){return function(){this.style.removeProperty(t)}}function Fs(t,n,e){var i,r=e+"",o;return function(){var s=it(this,t);return s===r?null:s===i?o:o=n(i=s,e)}}function Vs(t,n,e){var i,r,o;return function(){var s=it(this,t),a=e(this),u=a+"";return a==null&&(u=a=(this.style.removeProperty(t),it(this,t))),s===u?null:s===i&&u===r?o:(r=u,o=n(i=s,a))}}function Gs(t,n){var e,i,r,o="style."+n,s="end."+o,a;return function(){var u=V(this,t),l=u.on,c=u.value[o]==null?a||(a=ai(n)):void 0;(l!==e||r!==c)&&(i=(e=l).copy()).on(s,r=c),u.on=i}}function Us(t,n,e){var i=(t+="")=="transform"?Ge:si;return n==null?this.styleTween(t,Hs(t,i)).on("end.style."+t,ai(t)):typeof n=="function"?this.styleTween(t,Vs(t,i,Yn(this,"style."+t,n))).each(Gs(this._id,t)):this.styleTween(t,Fs(t,i,n),e).on("end.style."+t,null)}function Ks(t,n,e){return function(i){this.style.setProperty(t,n.call(this,i),e)}}function Qs(t,n,e){var i,r;function o(){var s=n.apply(this,arguments);return s!==r&&(i=(r=s)&&Ks(t,s,e)),i}return o._value=n,o}function Zs(t,n,e){var i="style."+(t+="");if(arguments.length<2)return(i=this.tween(i))&&i._value;if(n==null)return this.tween(i,null);if(typeof n!="function")throw new Error;return this.tween(i,Qs(t,n,e??""))}function Ws(t){return function(){this.textContent=t}}function Js(t){return function(){var n=t(this);this.textContent=n??""}}function js(t){return this.tween("text",typeof t=="function"?Js(Yn(this,"text",t)):Ws(t==null?"":t+""))}function ta(t){return function(n){this.textContent=t.call(this,n)}}function na(t){var n,e;function i(){var r=t.apply(this,arguments);return r!==e&&(n=(e=r)&&ta(r)),n}return i._value=t,i}function ea(t){var n="text";if(arguments.length<1)return(n=this.tween(n))&&n._value;if(t==null)return this.tween(n,null);if(typeof t!="function")throw new Error;return this.tween(n,na(t))}function ia(){for(var t=this._name,n=this._id,e=ui(),i=this._groups,r=i.length,o=0;o<r;++o)for(var s=i[o],a=s.length,u,l=0;l<a;++l)if(u=s[l]){var c=L(u,n);rn(u,t,e,l,s,{time:c.time+c.delay+c.duration,delay:0,duration:c.duration,ease:c.ease})}return new W(i,this._parents,t,e)}function ra(){var t,n,e=this,i=e._id,r=e.size();return new Promise(function(o,s){var a={value:s},u={value:function(){--r===0&&o()}};e.each(function(){var l=V(this,i),c=l.on;c!==t&&(n=(t=c).copy(),n._.cancel.push(a),n._.interrupt.push(a),n._.end.push(u)),l.on=n}),r===0&&o()})}var oa=0;function W(t,n,e,i){this._groups=t,this._parents=n,this._name=e,this._id=i}function sa(t){return rt().transition(t)}function ui(){return++oa}var Z=rt.prototype;W.prototype=sa.prototype={constructor:W,select:Bs,selectAll:Xs,selectChild:Z.selectChild,selectChildren:Z.selectChildren,filter:Is,merge:Rs,selection:Ys,transition:ia,call:Z.call,nodes:Z.nodes,node:Z.node,size:Z.size,empty:Z.empty,each:Z.each,on:Ps,attr:ds,attrTween:ws,style:Us,styleTween:Zs,text:js,textTween:ea,remove:Ds,tween:ls,delay:ks,duration:As,ease:Ss,easeVarying:$s,end:ra,[Symbol.iterator]:Z[Symbol.iterator]};var aa={time:null,delay:0,duration:250,ease:ei};function ua(t,n){for(var e;!(e=t.__transition)||!(e=e[n]);)if(!(t=t.parentNode))throw new Error(`transition ${n} not found`);return e}function la(t){var n,e;t instanceof W?(n=t._id,t=t._name):(n=ui(),(e=aa).time=jt(),t=t==null?null:t+"");for(var i=this._groups,r=i.length,o=0;o<r;++o)for(var s=i[o],a=s.length,u,l=0;l<a;++l)(u=s[l])&&rn(u,t,n,l,s,e||ua(u,n));return new W(i,this._parents,t,n)}rt.prototype.interrupt=ss;rt.prototype.transition=la;var on=t=>()=>t;function ca(t,{sourceEvent:n,target:e,transform:i,dispatch:r}){Object.defineProperties(this,{type:{value:t,enumerable:!0,configurable:!0},sourceEvent:{value:n,enumerable:!0,configurable:!0},target:{value:e,enumerable:!0,configurable:!0},transform:{value:i,enumerable:!0,configurable:!0},_:{value:r}})}function J(t,n,e){this.k=t,this.x=n,this.y=e}J.prototype={constructor:J,scale:function(t){return t===1?this:new J(this.k*t,this.x,this.y)},translate:function(t,n){return t===0&n===0?this:new J(this.k,this.x+this.k*t,this.y+this.k*n)},apply:function(t){return[t[0]*this.k+this.x,t[1]*this.k+this.y]},applyX:function(t){return t*this.k+this.x},applyY:function(t){return t*this.k+this.y},invert:function(t){return[(t[0]-this.x)/this.k,(t[1]-this.y)/this.k]},invertX:function(t){return(t-this.x)/this.k},invertY:function(t){return(t-this.y)/this.k},rescaleX:function(t){return t.copy().domain(t.range().map(this.invertX,this).map(t.invert,t))},rescaleY:function(t){return t.copy().domain(t.range().map(this.invertY,this).map(t.invert,t))},toString:function(){return"translate("+this.x+","+this.y+") scale("+this.k+")"}};var It=new J(1,0,0);ha.prototype=J.prototype;function ha(t){for(;!t.__zoom;)if(!(t=t.parentNode))return It;return t.__zoom}function Hn(t){t.stopImmediatePropagation()}function $t(t){t.preventDefault(),t.stopImmediatePropagation()}function fa(t){return(!t.ctrlKey||t.type==="wheel")&&!t.button}function _a(){var t=this;return t instanceof SVGElement?(t=t.ownerSVGElement||t,t.hasAttribute("viewBox")?(t=t.viewBox.baseVal,[[t.x,t.y],[t.x+t.width,t.y+t.height]]):[[0,0],[t.width.baseVal.value,t.height.baseVal.value]]):[[0,0],[t.clientWidth,t.clientHeight]]}function li(){return this.__zoom||It}function pa(t){return-t.deltaY*(t.deltaMode===1?.05:t.deltaMode?1:.002)*(t.ctrlKey?10:1)}function ga(){return navigator.maxTouchPoints||"ontouchstart"in this}function da(t,n,e){var i=t.invertX(n[0][0])-e[0][0],r=t.invertX(n[1][0])-e[1][0],o=t.invertY(n[0][1])-e[0][1],s=t.invertY(n[1][1])-e[1][1];return t.translate(r>i?(i+r)/2:Math.min(0,i)||Math.max(0,r),s>o?(o+s)/2:Math.min(0,o)||Math.max(0,s))}function ci(){var t=fa,n=_a,e=da,i=pa,r=ga,o=[0,1/0],s=[[-1/0,-1/0],[1/0,1/0]],a=250,u=Ke,l=bt("start","zoom","end"),c,p,_,g=500,b=150,T=0,N=10;function y(h){h.property("__zoom",li).on("wheel.zoom",Ot,{passive:!1}).on("mousedown.zoom",zt).on("dblclick.zoom",Pt).filter(r).on("touchstart.zoom",Ri).on("touchmove.zoom",Oi).on("touchend.zoom touchcancel.zoom",zi).style("-webkit-tap-highlight-color","rgba(0,0,0,0)")}y.transform=function(h,d,f,m){var v=h.selection?h.selection():h;v.property("__zoom",li),h!==v?I(h,d,f,m):v.interrupt().each(function(){z(this,arguments).event(m).start().zoom(null,typeof d=="function"?d.apply(this,arguments):d).end()})},y.scaleBy=function(h,d,f,m){y.scaleTo(h,function(){var v=this.__zoom.k,x=typeof d=="function"?d.apply(this,arguments):d;return v*x},f,m)},y.scaleTo=function(h,d,f,m){y.transform(h,function(){var v=n.apply(this,arguments),x=this.__zoom,w=f==null?$(v):typeof f=="function"?f.apply(this,arguments):f,k=x.invert(w),M=typeof d=="function"?d.apply(this,arguments):d;return e(S(E(x,M),w,k),v,s)},f,m)},y.translateBy=function(h,d,f,m){y.transform(h,function(){return e(this.__zoom.translate(typeof d=="function"?d.apply(this,arguments):d,typeof f=="function"?f.apply(this,arguments):f),n.apply(this,arguments),s)},null,m)},y.translateTo=function(h,d,f,m,v){y.transform(h,function(){var x=n.apply(this,arguments),w=this.__zoom,k=m==null?$(x):typeof m=="function"?m.apply(this,arguments):m;return e(It.translate(k[0],k[1]).scale(w.k).translate(typeof d=="function"?-d.apply(this,arguments):-d,typeof f=="function"?-f.apply(this,arguments):-f),x,s)},m,v)};function E(h,d){return d=Math.max(o[0],Math.min(o[1],d)),d===h.k?h:new J(d,h.x,h.y)}function S(h,d,f){var m=d[0]-f[0]*h.k,v=d[1]-f[1]*h.k;return m===h.x&&v===h.y?h:new J(h.k,m,v)}function $(h){return[(+h[0][0]+ +h[1][0])/2,(+h[0][1]+ +h[1][1])/2]}function I(h,d,f,m){h.on("start.zoom",function(){z(this,arguments).event(m).start()}).on("interrupt.zoom end.zoom",function(){z(this,arguments).event(m).end()}).tween("zoom",function(){var v=this,x=arguments,w=z(v,x).event(m),k=n.apply(v,x),M=f==null?$(k):typeof f=="function"?f.apply(v,x):f,Y=Math.max(k[1][0]-k[0][0],k[1][1]-k[0][1]),C=v.__zoom,P=typeof d=="function"?d.apply(v,x):d,G=u(C.invert(M).concat(Y/C.k),P.invert(M).concat(Y/P.k));return function(q){if(q===1)q=P;else{var U=G(q),ln=Y/U[2];q=new J(ln,M[0]-U[0]*ln,M[1]-U[1]*ln)}w.zoom(null,q)}})}function z(h,d,f){return!f&&h.__zooming||new j(h,d)}function j(h,d){this.that=h,this.args=d,this.active=0,this.sourceEvent=null,this.extent=n.apply(h,d),this.taps=0}j.prototype={event:function(h){return h&&(this.sourceEvent=h),this},start:function(){return++this.active===1&&(this.that.__zooming=this,this.emit("start")),this},zoom:function(h,d){return this.mouse&&h!=="mouse"&&(this.mouse[1]=d.invert(this.mouse[0])),this.touch0&&h!=="touch"&&(this.touch0[1]=d.invert(this.touch0[0])),this.touch1&&h!=="touch"&&(this.touch1[1]=d.invert(this.touch1[0])),this.that.__zoom=d,this.emit("zoom"),this},end:function(){return--this.active===0&&(delete this.that.__zooming,this.emit("end")),this},emit:function(h){var d=D(this.that).datum();l.call(h,this.that,new ca(h,{sourceEvent:this.sourceEvent,target:y,transform:this.that.__zoom,dispatch:l}),d)}};function Ot(h,...d){if(!t.apply(this,arguments))return;var f=z(this,d).event(h),m=this.__zoom,v=Math.max(o[0],Math.min(o[1],m.k*Math.pow(2,i.apply(this,arguments)))),x=B(h);if(f.wheel)(f.mouse[0][0]!==x[0]||f.mouse[0][1]!==x[1])&&(f.mouse[1]=m.invert(f.mouse[0]=x)),clearTimeout(f.wheel);else{if(m.k===v)return;f.mouse=[x,m.invert(x)],Ct(this),f.start()}$t(h),f.wheel=setTimeout(w,b),f.zoom("mouse",e(S(E(m,v),f.mouse[0],f.mouse[1]),f.extent,s));function w(){f.wheel=null,f.end()}}function zt(h,...d){if(_||!t.apply(this,arguments))return;var f=h.currentTarget,m=z(this,d,!0).event(h),v=D(h.view).on("mousemove.zoom",M,!0).on("mouseup.zoom",Y,!0),x=B(h,f),w=h.clientX,k=h.clientY;fe(h.view),Hn(h),m.mouse=[x,this.__zoom.invert(x)],Ct(this),m.start();function M(C){if($t(C),!m.moved){var P=C.clientX-w,G=C.clientY-k;m.moved=P*P+G*G>T}m.event(C).zoom("mouse",e(S(m.that.__zoom,m.mouse[0]=B(C,f),m.mouse[1]),m.extent,s))}function Y(C){v.on("mousemove.zoom mouseup.zoom",null),_e(C.view,m.moved),$t(C),m.event(C).end()}}function Pt(h,...d){if(t.apply(this,arguments)){var f=this.__zoom,m=B(h.changedTouches?h.changedTouches[0]:h,this),v=f.invert(m),x=f.k*(h.shiftKey?.5:2),w=e(S(E(f,x),m,v),n.apply(this,d),s);$t(h),a>0?D(this).transition().duration(a).call(I,w,m,h):D(this).call(y.transform,w,m,h)}}function Ri(h,...d){if(t.apply(this,arguments)){var f=h.touches,m=f.length,v=z(this,d,h.changedTouches.length===m).event(h),x,w,k,M;for(Hn(h),w=0;w<m;++w)k=f[w],M=B(k,this),M=[M,this.__zoom.invert(M),k.identifier],v.touch0?!v.touch1&&v.touch0[2]!==M[2]&&(v.touch1=M,v.taps=0):(v.touch0=M,x=!0,v.taps=1+!!c);c&&(c=clearTimeout(c)),x&&(v.taps<2&&(p=M[0],c=setTimeout(function(){c=null},g)),Ct(this),v.start())}}function Oi(h,...d){if(this.__zooming){var f=z(this,d).event(h),m=h.changedTouches,v=m.length,x,w,k,M;for($t(h),x=0;x<v;++x)w=m[x],k=B(w,this),f.touch0&&f.touch0[2]===w.identifier?f.touch0[0]=k:f.touch1&&f.touch1[2]===w.identifier&&(f.touch1[0]=k);if(w=f.that.__zoom,f.touch1){var Y=f.touch0[0],C=f.touch0[1],P=f.touch1[0],G=f.touch1[1],q=(q=P[0]-Y[0])*q+(q=P[1]-Y[1])*q,U=(U=G[0]-C[0])*U+(U=G[1]-C[1])*U;w=E(w,Math.sqrt(q/U)),k=[(Y[0]+P[0])/2,(Y[1]+P[1])/2],M=[(C[0]+G[0])/2,(C[1]+G[1])/2]}else if(f.touch0)k=f.touch0[0],M=f.touch0[1];else return;f.zoom("touch",e(S(w,k,M),f.extent,s))}}function zi(h,...d){if(this.__zooming){var f=z(this,d).event(h),m=h.changedTouches,v=m.length,x,w;for(Hn(h),_&&clearTimeout(_),_=setTimeout(function(){_=null},g),x=0;x<v;++x)w=m[x],f.touch0&&f.touch0[2]===w.identifier?delete f.touch0:f.touch1&&f.touch1[2]===w.identifier&&delete f.touch1;if(f.touch1&&!f.touch0&&(f.touch0=f.touch1,delete f.touch1),f.touch0)f.touch0[1]=this.__zoom.invert(f.touch0[0]);else if(f.end(),f.taps===2&&(w=B(w,this),Math.hypot(p[0]-w[0],p[1]-w[1])<N)){var k=D(this).on("dblclick.zoom");k&&k.apply(this,arguments)}}}return y.wheelDelta=function(h){return arguments.length?(i=typeof h=="function"?h:on(+h),y):i},y.filter=function(h){return arguments.length?(t=typeof h=="function"?h:on(!!h),y):t},y.touchable=function(h){return arguments.length?(r=typeof h=="function"?h:on(!!h),y):r},y.extent=function(h){return arguments.length?(n=typeof h=="function"?h:on([[+h[0][0],+h[0][1]],[+h[1][0],+h[1][1]]]),y):n},y.scaleExtent=function(h){return arguments.length?(o[0]=+h[0],o[1]=+h[1],y):[o[0],o[1]]},y.translateExtent=function(h){return arguments.length?(s[0][0]=+h[0][0],s[1][0]=+h[1][0],s[0][1]=+h[0][1],s[1][1]=+h[1][1],y):[[s[0][0],s[0][1]],[s[1][0],s[1][1]]]},y.constrain=function(h){return arguments.length?(e=h,y):e},y.duration=function(h){return arguments.length?(a=+h,y):a},y.interpolate=function(h){return arguments.length?(u=h,y):u},y.on=function(){var h=l.on.apply(l,arguments);return h===l?y:h},y.clickDistance=function(h){return arguments.length?(T=(h=+h)*h,y):Math.sqrt(T)},y.tapDistance=function(h){return arguments.length?(N=+h,y):N},y}var Rt=Math.PI,Fn=2*Rt,ft=1e-6,ma=Fn-ft;function hi(t){this._+=t[0];for(let n=1,e=t.length;n<e;++n)this._+=arguments[n]+t[n]}function ya(t){let n=Math.floor(t);if(!(n>=0))throw new Error(`invalid digits: ${t}`);if(n>15)return hi;let e=10**n;return function(i){this._+=i[0];for(let r=1,o=i.length;r<o;++r)this._+=Math.round(arguments[r]*e)/e+i[r]}}function fi(t,n,e,i){return t===e&&n===i}function va(t){let n=Math.floor(t);if(!(n<=15))return fi;let e=10**n,i=function(r){return Math.round(r*e)};return function(r,o,s,a){return i(r)===i(s)&&i(o)===i(a)}}var vt=class{constructor(n){this._x0=this._y0=this._x1=this._y1=null,this._="",this._append=n==null?hi:ya(n),this._equal=n==null?fi:va(n)}moveTo(n,e){this._append`M${this._x0=this._x1=+n},${this._y0=this._y1=+e}`}closePath(){this._x1!==null&&(this._x1=this._x0,this._y1=this._y0,this._append`Z`)}lineTo(n,e){this._append`L${this._x1=+n},${this._y1=+e}`}quadraticCurveTo(n,e,i,r){this._append`Q${+n},${+e},${this._x1=+i},${this._y1=+r}`}bezierCurveTo(n,e,i,r,o,s){this._append`C${+n},${+e},${+i},${+r},${this._x1=+o},${this._y1=+s}`}arcTo(n,e,i,r,o){if(n=+n,e=+e,i=+i,r=+r,o=+o,o<0)throw new Error(`negative radius: ${o}`);let s=this._x1,a=this._y1,u=i-n,l=r-e,c=s-n,p=a-e,_=c*c+p*p;if(this._x1===null)this._append`M${this._x1=n},${this._y1=e}`;else if(_>ft)if(!(Math.abs(p*u-l*c)>ft)||!o)this._append`L${this._x1=n},${this._y1=e}`;else{let g=i-s,b=r-a,T=u*u+l*l,N=g*g+b*b,y=Math.sqrt(T),E=Math.sqrt(_),S=o*Math.tan((Rt-Math.acos((T+_-N)/(2*y*E)))/2),$=S/E,I=S/y;Math.abs($-1)>ft&&this._append`L${n+$*c},${e+$*p}`,this._append`A${o},${o},0,0,${+(p*g>c*b)},${this._x1=n+I*u},${this._y1=e+I*l}`}}arc(n,e,i,r,o,s){if(n=+n,e=+e,i=+i,s=!!s,i<0)throw new Error(`negative radius: ${i}`);let a=i*Math.cos(r),u=i*Math.sin(r),l=n+a,c=e+u,p=1^s,_=s?r-o:o-r;if(this._x1===null?this._append`M${l},${c}`:(Math.abs(this._x1-l)>ft||Math.abs(this._y1-c)>ft)&&this._append`L${l},${c}`,!!i){if(_<0&&(_=_%Fn+Fn),_>ma)this._append`A${i},${i},0,1,${p},${n-a},${e-u}A${i},${i},0,1,${p},${this._x1=l},${this._y1=c}`;else if(_>ft){let g=n+i*Math.cos(o),b=e+i*Math.sin(o);if(_>=Rt&&this._equal(l,c,g,b)){_/=2;let T=r+_;this._append`A${i},${i},0,${+(_>=Rt)},${p},${n+i*Math.cos(T)},${e+i*Math.sin(T)}`}this._append`A${i},${i},0,${+(_>=Rt)},${p},${this._x1=g},${this._y1=b}`}}}rect(n,e,i,r){this._append`M${this._x0=this._x1=+n},${this._y0=this._y1=+e}h${i=+i}v${+r}h${-i}Z`}toString(){return this._}};function xa(){return new vt}xa.prototype=vt.prototype;function nt(t){return function(){return t}}var wa=Math.cos;var Gn=Math.sin,xt=Math.sqrt,_i=1e-12,sn=Math.PI,zu=sn/2,yi=2*sn;function vi(t){let n=3;return t.digits=function(e){if(!arguments.length)return n;if(e==null)n=null;else{let i=Math.floor(e);if(!(i>=0))throw new RangeError(`invalid digits: ${e}`);n=i}return t},()=>new vt(n)}var ba=Array.prototype.slice;function Ta(t){return typeof t=="object"&&"length"in t?t:Array.from(t)}function xi(t){this._context=t}xi.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._point=0},lineEnd:function(){(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2;default:this._context.lineTo(t,n);break}}};function wi(t){return new xi(t)}function bi(t){return t[0]}function Ti(t){return t[1]}function ki(t,n){var e=nt(!0),i=null,r=wi,o=null,s=vi(a);t=typeof t=="function"?t:t===void 0?bi:nt(t),n=typeof n=="function"?n:n===void 0?Ti:nt(n);function a(u){var l,c=(u=Ta(u)).length,p,_=!1,g;for(i==null&&(o=r(g=s())),l=0;l<=c;++l)!(l<c&&e(p=u[l],l,u))===_&&((_=!_)?o.lineStart():o.lineEnd()),_&&o.point(+t(p,l,u),+n(p,l,u));if(g)return o=null,g+""||null}return a.x=function(u){return arguments.length?(t=typeof u=="function"?u:nt(+u),a):t},a.y=function(u){return arguments.length?(n=typeof u=="function"?u:nt(+u),a):n},a.defined=function(u){return arguments.length?(e=typeof u=="function"?u:nt(!!u),a):e},a.curve=function(u){return arguments.length?(r=u,i!=null&&(o=r(i)),a):r},a.context=function(u){return arguments.length?(u==null?i=o=null:o=r(i=u),a):i},a}var Pu=ka(wi);function Mi(t){this._curve=t}Mi.prototype={areaStart:function(){this._curve.areaStart()},areaEnd:function(){this._curve.areaEnd()},lineStart:function(){this._curve.lineStart()},lineEnd:function(){this._curve.lineEnd()},point:function(t,n){this._curve.point(n*Math.sin(t),n*-Math.cos(t))}};function ka(t){function n(e){return new Mi(t(e))}return n._curve=t,n}var Un=class{constructor(n,e){this._context=n,this._x=e}areaStart(){this._line=0}areaEnd(){this._line=NaN}lineStart(){this._point=0}lineEnd(){(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line}point(n,e){switch(n=+n,e=+e,this._point){case 0:{this._point=1,this._line?this._context.lineTo(n,e):this._context.moveTo(n,e);break}case 1:this._point=2;default:{this._x?this._context.bezierCurveTo(this._x0=(this._x0+n)/2,this._y0,this._x0,e,n,e):this._context.bezierCurveTo(this._x0,this._y0=(this._y0+e)/2,n,this._y0,n,e);break}}this._x0=n,this._y0=e}};function Ma(t){return new Un(t,!0)}function Na(t){return t.source}function Aa(t){return t.target}function Ea(t){let n=Na,e=Aa,i=bi,r=Ti,o=null,s=null,a=vi(u);function u(){let l,c=ba.call(arguments),p=n.apply(this,c),_=e.apply(this,c);if(o==null&&(s=t(l=a())),s.lineStart(),c[0]=p,s.point(+i.apply(this,c),+r.apply(this,c)),c[0]=_,s.point(+i.apply(this,c),+r.apply(this,c)),s.lineEnd(),l)return s=null,l+""||null}return u.source=function(l){return arguments.length?(n=l,u):n},u.target=function(l){return arguments.length?(e=l,u):e},u.x=function(l){return arguments.length?(i=typeof l=="function"?l:nt(+l),u):i},u.y=function(l){return arguments.length?(r=typeof l=="function"?l:nt(+l),u):r},u.context=function(l){return arguments.length?(l==null?o=s=null:s=t(o=l),u):o},u}function Ni(){return Ea(Ma)}var qu=xt(3);var Sa=xt(1/3),Du=Sa*2;var Ai=Gn(sn/10)/Gn(7*sn/10),Bu=Gn(yi/10)*Ai,Xu=-wa(yi/10)*Ai;var Lu=xt(3);var Yu=xt(3);var Hu=xt(3)/2,Ca=1/xt(12),Fu=(Ca/2+1)*3;function et(){}function an(t,n,e){t._context.bezierCurveTo((2*t._x0+t._x1)/3,(2*t._y0+t._y1)/3,(t._x0+2*t._x1)/3,(t._y0+2*t._y1)/3,(t._x0+4*t._x1+n)/6,(t._y0+4*t._y1+e)/6)}function Qn(t){this._context=t}Qn.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._y0=this._y1=NaN,this._point=0},lineEnd:function(){switch(this._point){case 3:an(this,this._x1,this._y1);case 2:this._context.lineTo(this._x1,this._y1);break}(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2;break;case 2:this._point=3,this._context.lineTo((5*this._x0+this._x1)/6,(5*this._y0+this._y1)/6);default:an(this,t,n);break}this._x0=this._x1,this._x1=t,this._y0=this._y1,this._y1=n}};function $a(t){this._context=t}$a.prototype={areaStart:et,areaEnd:et,lineStart:function(){this._x0=this._x1=this._x2=this._x3=this._x4=this._y0=this._y1=this._y2=this._y3=this._y4=NaN,this._point=0},lineEnd:function(){switch(this._point){case 1:{this._context.moveTo(this._x2,this._y2),this._context.closePath();break}case 2:{this._context.moveTo((this._x2+2*this._x3)/3,(this._y2+2*this._y3)/3),this._context.lineTo((this._x3+2*this._x2)/3,(this._y3+2*this._y2)/3),this._context.closePath();break}case 3:{this.point(this._x2,this._y2),this.point(this._x3,this._y3),this.point(this._x4,this._y4);break}}},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._x2=t,this._y2=n;break;case 1:this._point=2,this._x3=t,this._y3=n;break;case 2:this._point=3,this._x4=t,this._y4=n,this._context.moveTo((this._x0+4*this._x1+t)/6,(this._y0+4*this._y1+n)/6);break;default:an(this,t,n);break}this._x0=this._x1,this._x1=t,this._y0=this._y1,this._y1=n}};function Ia(t){this._context=t}Ia.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._y0=this._y1=NaN,this._point=0},lineEnd:function(){(this._line||this._line!==0&&this._point===3)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1;break;case 1:this._point=2;break;case 2:this._point=3;var e=(this._x0+4*this._x1+t)/6,i=(this._y0+4*this._y1+n)/6;this._line?this._context.lineTo(e,i):this._context.moveTo(e,i);break;case 3:this._point=4;default:an(this,t,n);break}this._x0=this._x1,this._x1=t,this._y0=this._y1,this._y1=n}};function Ei(t,n){this._basis=new Qn(t),this._beta=n}Ei.prototype={lineStart:function(){this._x=[],this._y=[],this._basis.lineStart()},lineEnd:function(){var t=this._x,n=this._y,e=t.length-1;if(e>0)for(var i=t[0],r=n[0],o=t[e]-i,s=n[e]-r,a=-1,u;++a<=e;)u=a/e,this._basis.point(this._beta*t[a]+(1-this._beta)*(i+u*o),this._beta*n[a]+(1-this._beta)*(r+u*s));this._x=this._y=null,this._basis.lineEnd()},point:function(t,n){this._x.push(+t),this._y.push(+n)}};var Vu=(function t(n){function e(i){return n===1?new Qn(i):new Ei(i,n)}return e.beta=function(i){return t(+i)},e})(.85);function un(t,n,e){t._context.bezierCurveTo(t._x1+t._k*(t._x2-t._x0),t._y1+t._k*(t._y2-t._y0),t._x2+t._k*(t._x1-n),t._y2+t._k*(t._y1-e),t._x2,t._y2)}function Zn(t,n){this._context=t,this._k=(1-n)/6}Zn.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._x2=this._y0=this._y1=this._y2=NaN,this._point=0},lineEnd:function(){switch(this._point){case 2:this._context.lineTo(this._x2,this._y2);break;case 3:un(this,this._x1,this._y1);break}(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2,this._x1=t,this._y1=n;break;case 2:this._point=3;default:un(this,t,n);break}this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Gu=(function t(n){function e(i){return new Zn(i,n)}return e.tension=function(i){return t(+i)},e})(0);function Wn(t,n){this._context=t,this._k=(1-n)/6}Wn.prototype={areaStart:et,areaEnd:et,lineStart:function(){this._x0=this._x1=this._x2=this._x3=this._x4=this._x5=this._y0=this._y1=this._y2=this._y3=this._y4=this._y5=NaN,this._point=0},lineEnd:function(){switch(this._point){case 1:{this._context.moveTo(this._x3,this._y3),this._context.closePath();break}case 2:{this._context.lineTo(this._x3,this._y3),this._context.closePath();break}case 3:{this.point(this._x3,this._y3),this.point(this._x4,this._y4),this.point(this._x5,this._y5);break}}},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._x3=t,this._y3=n;break;case 1:this._point=2,this._context.moveTo(this._x4=t,this._y4=n);break;case 2:this._point=3,this._x5=t,this._y5=n;break;default:un(this,t,n);break}this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Uu=(function t(n){function e(i){return new Wn(i,n)}return e.tension=function(i){return t(+i)},e})(0);function Jn(t,n){this._context=t,this._k=(1-n)/6}Jn.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._x2=this._y0=this._y1=this._y2=NaN,this._point=0},lineEnd:function(){(this._line||this._line!==0&&this._point===3)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1;break;case 1:this._point=2;break;case 2:this._point=3,this._line?this._context.lineTo(this._x2,this._y2):this._context.moveTo(this._x2,this._y2);break;case 3:this._point=4;default:un(this,t,n);break}this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Ku=(function t(n){function e(i){return new Jn(i,n)}return e.tension=function(i){return t(+i)},e})(0);function jn(t,n,e){var i=t._x1,r=t._y1,o=t._x2,s=t._y2;if(t._l01_a>_i){var a=2*t._l01_2a+3*t._l01_a*t._l12_a+t._l12_2a,u=3*t._l01_a*(t._l01_a+t._l12_a);i=(i*a-t._x0*t._l12_2a+t._x2*t._l01_2a)/u,r=(r*a-t._y0*t._l12_2a+t._y2*t._l01_2a)/u}if(t._l23_a>_i){var l=2*t._l23_2a+3*t._l23_a*t._l12_a+t._l12_2a,c=3*t._l23_a*(t._l23_a+t._l12_a);o=(o*l+t._x1*t._l23_2a-n*t._l12_2a)/c,s=(s*l+t._y1*t._l23_2a-e*t._l12_2a)/c}t._context.bezierCurveTo(i,r,o,s,t._x2,t._y2)}function Si(t,n){this._context=t,this._alpha=n}Si.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._x2=this._y0=this._y1=this._y2=NaN,this._l01_a=this._l12_a=this._l23_a=this._l01_2a=this._l12_2a=this._l23_2a=this._point=0},lineEnd:function(){switch(this._point){case 2:this._context.lineTo(this._x2,this._y2);break;case 3:this.point(this._x2,this._y2);break}(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){if(t=+t,n=+n,this._point){var e=this._x2-t,i=this._y2-n;this._l23_a=Math.sqrt(this._l23_2a=Math.pow(e*e+i*i,this._alpha))}switch(this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2;break;case 2:this._point=3;default:jn(this,t,n);break}this._l01_a=this._l12_a,this._l12_a=this._l23_a,this._l01_2a=this._l12_2a,this._l12_2a=this._l23_2a,this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Qu=(function t(n){function e(i){return n?new Si(i,n):new Zn(i,0)}return e.alpha=function(i){return t(+i)},e})(.5);function Ci(t,n){this._context=t,this._alpha=n}Ci.prototype={areaStart:et,areaEnd:et,lineStart:function(){this._x0=this._x1=this._x2=this._x3=this._x4=this._x5=this._y0=this._y1=this._y2=this._y3=this._y4=this._y5=NaN,this._l01_a=this._l12_a=this._l23_a=this._l01_2a=this._l12_2a=this._l23_2a=this._point=0},lineEnd:function(){switch(this._point){case 1:{this._context.moveTo(this._x3,this._y3),this._context.closePath();break}case 2:{this._context.lineTo(this._x3,this._y3),this._context.closePath();break}case 3:{this.point(this._x3,this._y3),this.point(this._x4,this._y4),this.point(this._x5,this._y5);break}}},point:function(t,n){if(t=+t,n=+n,this._point){var e=this._x2-t,i=this._y2-n;this._l23_a=Math.sqrt(this._l23_2a=Math.pow(e*e+i*i,this._alpha))}switch(this._point){case 0:this._point=1,this._x3=t,this._y3=n;break;case 1:this._point=2,this._context.moveTo(this._x4=t,this._y4=n);break;case 2:this._point=3,this._x5=t,this._y5=n;break;default:jn(this,t,n);break}this._l01_a=this._l12_a,this._l12_a=this._l23_a,this._l01_2a=this._l12_2a,this._l12_2a=this._l23_2a,this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Zu=(function t(n){function e(i){return n?new Ci(i,n):new Wn(i,0)}return e.alpha=function(i){return t(+i)},e})(.5);function $i(t,n){this._context=t,this._alpha=n}$i.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._x2=this._y0=this._y1=this._y2=NaN,this._l01_a=this._l12_a=this._l23_a=this._l01_2a=this._l12_2a=this._l23_2a=this._point=0},lineEnd:function(){(this._line||this._line!==0&&this._point===3)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){if(t=+t,n=+n,this._point){var e=this._x2-t,i=this._y2-n;this._l23_a=Math.sqrt(this._l23_2a=Math.pow(e*e+i*i,this._alpha))}switch(this._point){case 0:this._point=1;break;case 1:this._point=2;break;case 2:this._point=3,this._line?this._context.lineTo(this._x2,this._y2):this._context.moveTo(this._x2,this._y2);break;case 3:this._point=4;default:jn(this,t,n);break}this._l01_a=this._l12_a,this._l12_a=this._l23_a,this._l01_2a=this._l12_2a,this._l12_2a=this._l23_2a,this._x0=this._x1,this._x1=this._x2,this._x2=t,this._y0=this._y1,this._y1=this._y2,this._y2=n}};var Wu=(function t(n){function e(i){return n?new $i(i,n):new Jn(i,0)}return e.alpha=function(i){return t(+i)},e})(.5);function Ra(t){this._context=t}Ra.prototype={areaStart:et,areaEnd:et,lineStart:function(){this._point=0},lineEnd:function(){this._point&&this._context.closePath()},point:function(t,n){t=+t,n=+n,this._point?this._context.lineTo(t,n):(this._point=1,this._context.moveTo(t,n))}};function pi(t){return t<0?-1:1}function gi(t,n,e){var i=t._x1-t._x0,r=n-t._x1,o=(t._y1-t._y0)/(i||r<0&&-0),s=(e-t._y1)/(r||i<0&&-0),a=(o*r+s*i)/(i+r);return(pi(o)+pi(s))*Math.min(Math.abs(o),Math.abs(s),.5*Math.abs(a))||0}function di(t,n){var e=t._x1-t._x0;return e?(3*(t._y1-t._y0)/e-n)/2:n}function Vn(t,n,e){var i=t._x0,r=t._y0,o=t._x1,s=t._y1,a=(o-i)/3;t._context.bezierCurveTo(i+a,r+a*n,o-a,s-a*e,o,s)}function Kn(t){this._context=t}Kn.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x0=this._x1=this._y0=this._y1=this._t0=NaN,this._point=0},lineEnd:function(){switch(this._point){case 2:this._context.lineTo(this._x1,this._y1);break;case 3:Vn(this,this._t0,di(this,this._t0));break}(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line=1-this._line},point:function(t,n){var e=NaN;if(t=+t,n=+n,!(t===this._x1&&n===this._y1)){switch(this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2;break;case 2:this._point=3,Vn(this,di(this,e=gi(this,t,n)),e);break;default:Vn(this,this._t0,e=gi(this,t,n));break}this._x0=this._x1,this._x1=t,this._y0=this._y1,this._y1=n,this._t0=e}}};function Oa(t){this._context=new Ii(t)}(Oa.prototype=Object.create(Kn.prototype)).point=function(t,n){Kn.prototype.point.call(this,n,t)};function Ii(t){this._context=t}Ii.prototype={moveTo:function(t,n){this._context.moveTo(n,t)},closePath:function(){this._context.closePath()},lineTo:function(t,n){this._context.lineTo(n,t)},bezierCurveTo:function(t,n,e,i,r,o){this._context.bezierCurveTo(n,t,i,e,o,r)}};function za(t){this._context=t}za.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x=[],this._y=[]},lineEnd:function(){var t=this._x,n=this._y,e=t.length;if(e)if(this._line?this._context.lineTo(t[0],n[0]):this._context.moveTo(t[0],n[0]),e===2)this._context.lineTo(t[1],n[1]);else for(var i=mi(t),r=mi(n),o=0,s=1;s<e;++o,++s)this._context.bezierCurveTo(i[0][o],r[0][o],i[1][o],r[1][o],t[s],n[s]);(this._line||this._line!==0&&e===1)&&this._context.closePath(),this._line=1-this._line,this._x=this._y=null},point:function(t,n){this._x.push(+t),this._y.push(+n)}};function mi(t){var n,e=t.length-1,i,r=new Array(e),o=new Array(e),s=new Array(e);for(r[0]=0,o[0]=2,s[0]=t[0]+2*t[1],n=1;n<e-1;++n)r[n]=1,o[n]=4,s[n]=4*t[n]+2*t[n+1];for(r[e-1]=2,o[e-1]=7,s[e-1]=8*t[e-1]+t[e],n=1;n<e;++n)i=r[n]/o[n-1],o[n]-=i,s[n]-=i*s[n-1];for(r[e-1]=s[e-1]/o[e-1],n=e-2;n>=0;--n)r[n]=(s[n]-r[n+1])/o[n];for(o[e-1]=(t[e]+r[e-1])/2,n=0;n<e-1;++n)o[n]=2*t[n+1]-r[n+1];return[r,o]}function Pa(t,n){this._context=t,this._t=n}Pa.prototype={areaStart:function(){this._line=0},areaEnd:function(){this._line=NaN},lineStart:function(){this._x=this._y=NaN,this._point=0},lineEnd:function(){0<this._t&&this._t<1&&this._point===2&&this._context.lineTo(this._x,this._y),(this._line||this._line!==0&&this._point===1)&&this._context.closePath(),this._line>=0&&(this._t=1-this._t,this._line=1-this._line)},point:function(t,n){switch(t=+t,n=+n,this._point){case 0:this._point=1,this._line?this._context.lineTo(t,n):this._context.moveTo(t,n);break;case 1:this._point=2;default:{if(this._t<=0)this._context.lineTo(this._x,n),this._context.lineTo(t,n);else{var e=this._x*(1-this._t)+t*this._t;this._context.lineTo(e,this._y),this._context.lineTo(e,n)}break}}this._x=t,this._y=n}};return Li(qa);})();
(() => {
"use strict";

const in_numbers = (() => {
// Numbers as text: never more figures than are right.

/** A number for a reader: so many figures that count, fewer where the number may be off by `error`.
 *
 * The last figure printed is right to within one: half of it is rounding, and half at most is the error. */
function figures(value, digits = 3, error = 0) {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  const size = Math.abs(value);
  if (error > 0) {
    const last = Math.ceil(Math.log10(2 * error)), // 10^last is the unit of the last figure
      known = size ? Math.floor(Math.log10(size)) - last + 1 : 0;
    if (known < 1) return signed((Math.round(value / 10 ** last) * 10 ** last).toFixed(Math.max(0, -last)));
    digits = Math.min(digits, known);
  }
  return signed(
    size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1) : value.toPrecision(digits),
  );
}

/** All that 32 bits hold of a number of ordinary size: sums of what is printed are then those of the run. */
function decimals(value, error = 0) {
  return error > 0 ? figures(value, 4, error) : signed(value.toFixed(7));
}

function signed(text) {
  return text
    .replace(/^-(0(\.0*)?)$/, "$1")
    .replace("-", "−")
    .replace(/e\+?/, "e")
    .replace("e-", "e−");
}

function percent(share, error = 0) {
  if (share > 0 && share < 5e-4) return "<0.1%";
  return `${(100 * share).toFixed(error > 5e-4 ? 0 : 1)}%`;
}
return { figures, decimals, percent };
})();

const in_dom = (() => {
// Elements, figures and tooltips. Text enters the page as text alone: nothing here reads markup from a string.

const { figures } = in_numbers;

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) {
    if (child !== null && child !== undefined)
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function el(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A token as it is shown: spaces and ends of lines made visible, never nothing. */
function visible(piece) {
  return (
    String(piece)
      .replace(/^ (?=\S)/, "")
      .replace(/ /g, "␣")
      .replace(/\n/g, "⏎")
      .replace(/\t/g, "⇥")
      .replace(/[\p{Cc}]/gu, "·") || "∅"
  );
}

function shortened(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

/** Put new children into a holder; the focus stays on what has the same `data-key`, and the scroll where it was. */
function swap(holder, ...children) {
  const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.key : undefined,
    { scrollLeft } = holder;
  holder.replaceChildren(...children);
  holder.scrollLeft = scrollLeft;
  if (focused === undefined) return;
  const again = [...holder.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused);
  if (again) again.focus({ preventScroll: true });
}

/** A table for readers of screens: a header row, then rows of texts and numbers. */
function table(caption, header, rows) {
  return el(
    "table",
    {},
    el("caption", {}, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        header.map((name) => el("th", { scope: "col", dir: "auto" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map((row) =>
        el(
          "tr",
          {},
          row.map((cell, n) =>
            el(
              n ? "td" : "th",
              n ? { dir: "auto" } : { scope: "row", dir: "auto" },
              typeof cell === "number" ? figures(cell, 4) : cell,
            ),
          ),
        ),
      ),
    ),
  );
}

/** The direction of a text, by its first letter that has one. */
function directionOf(tokens) {
  const found = /[\u0590-\u08ff\ufb1d-\ufefc]|[A-Za-z\u00c0-\u024f\u0370-\u058f]/.exec(tokens.join(""));
  return found && /[\u0590-\u08ff\ufb1d-\ufefc]/.test(found[0]) ? "rtl" : "ltr";
}
return { el, svg, visible, shortened, swap, table, directionOf };
})();

const in_canvas = (() => {
// Canvases as fine as the screen.

/** A canvas of this size in CSS pixels, its context scaled to match the screen's own. */
function fitted(canvas, width, height) {
  const fine = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * fine));
  canvas.height = Math.max(1, Math.round(height * fine));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(fine, 0, 0, fine, 0, 0);
  return context;
}

/** An image with one pixel a cell: `colour(column, row)` gives {r, g, b}. */
function cells(columns, rows, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"),
    image = context.createImageData(columns, rows);
  for (let y = 0, n = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++, n += 4) {
      const { r, g, b } = colour(x, y);
      image.data[n] = r;
      image.data[n + 1] = g;
      image.data[n + 2] = b;
      image.data[n + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawCells(context, image, x, y, width, height) {
  context.imageSmoothingEnabled = false;
  context.drawImage(image, x, y, width, height);
}

/** Give the page a turn; then go on. */
function pause() {
  return new Promise((done) => setTimeout(done, 0));
}
return { fitted, cells, drawCells, pause };
})();

const in_tensors = (() => {
// The payload's tensors: base64 of little-endian numbers, opened when they are first looked at.

function bytesOf(text) {
  const raw = atob(text),
    bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) bytes[n] = raw.charCodeAt(n);
  return bytes;
}

/** Whole numbers times their row's scale. */
function scaled(whole, scales, width) {
  const factors = new Float32Array(bytesOf(scales).buffer),
    out = new Float32Array(whole.length);
  for (let row = 0, n = 0; row < factors.length; row++)
    for (let d = 0; d < width; d++, n++) out[n] = whole[n] * factors[row];
  return out;
}

function opened({ type, shape, data, scales }) {
  const bytes = bytesOf(data);
  if (type === "float32") return { shape, data: new Float32Array(bytes.buffer) };
  if (type === "int8" || type === "int16") {
    const whole = type === "int8" ? new Int8Array(bytes.buffer) : new Int16Array(bytes.buffer);
    return {
      shape,
      data: scaled(whole, scales, shape[shape.length - 1]),
      steps: new Float32Array(bytesOf(scales).buffer),
    };
  }
  if (type === "bit") {
    const count = shape.reduce((all, size) => all * size, 1);
    return { shape, data: Uint8Array.from({ length: count }, (_, n) => (bytes[n >> 3] >> (n & 7)) & 1) };
  }
  return { shape, data: bytes };
}

/** How far the numbers of a row may be from those of the run: half a step where they were rounded to whole steps. */
function doubt({ steps }, row) {
  return steps ? steps[row] / 2 : 0;
}

/** A function from a tensor's name to {shape, data}; null for no name. */
function openerOf(kept) {
  const known = new Map();
  return (name) => {
    if (name === null || name === undefined) return null;
    if (!known.has(name)) known.set(name, opened(kept[name]));
    return known.get(name);
  };
}
return { doubt, openerOf };
})();

const in_attention = (() => {
// Attention, computed here from the run's own queries, keys and values: softmax(scale·q·k + position, where allowed)·v.

const { doubt } = in_tensors;

const ROUNDING = 1e-6; // of a sum in 32 bits, as a share of the sum of its parts' sizes

/** One attention of the run: H heads from T queries to S keys. */
class Attention {
  constructor(entry, open) {
    this.entry = entry;
    this.open = open;
    this.heads = entry.heads;
    this.parts = null;
  }

  ready() {
    if (this.parts) return this.parts;
    const { entry, open } = this,
      position = entry.position || {};
    const q = open(entry.q),
      k = open(entry.k),
      v = open(entry.v),
      mask = open(entry.mask);
    this.parts = {
      q,
      k,
      v,
      mask,
      energy: open(entry.energy),
      others: entry.others && {
        rows: entry.others.rows,
        q: open(entry.others.q),
        k: open(entry.others.k),
        v: open(entry.others.v),
      },
      table: open(position.table),
      keys: open(position.keys),
      values: open(position.values),
      T: q.shape[1],
      E: q.shape[2],
      S: k.shape[1],
      W: v.shape[2],
      share: entry.heads / entry.groups,
      maskHeads: mask && mask.shape.length === 3 ? mask.shape[0] : 1,
    };
    return this.parts;
  }

  get T() {
    return this.ready().T;
  }
  get S() {
    return this.ready().S;
  }
  get E() {
    return this.ready().E;
  }

  /** Where a query's numbers are: its own, or those of Longformer's global tokens. */
  from(head, i) {
    const p = this.ready(),
      group = Math.floor(head / p.share);
    const other = p.others ? p.others.rows.indexOf(i) : -1;
    const { q, k, v } = other < 0 ? p : p.others,
      row = other < 0 ? head * p.T + i : head * p.others.rows.length + other;
    return {
      q: q.data,
      at: row * p.E,
      k: k.data,
      v: v.data,
      group: other < 0 ? group : head,
      tensors: { q, k, v },
      row,
    };
  }

  allowed(head, i, j) {
    const { mask, maskHeads, T, S } = this.ready();
    return !mask || mask.data[((maskHeads > 1 ? head : 0) * T + i) * S + j] === 1;
  }

  /** q·k, or w·tanh(q + k) where the score is additive. */
  dot(place, j) {
    const { E, S, energy } = this.parts,
      { q, at, k, group } = place,
      there = (group * S + j) * E;
    let sum = 0;
    if (energy) for (let e = 0; e < E; e++) sum += energy.data[e] * Math.tanh(q[at + e] + k[there + e]);
    else for (let e = 0; e < E; e++) sum += q[at + e] * k[there + e];
    return sum;
  }

  /** How far q·k may be from PyTorch's: by how q and k are stored, and by the order in which 32 bits are added. */
  dotDoubt(place, j) {
    const { E, S, energy } = this.parts,
      { q, at, k, group, tensors, row } = place,
      there = group * S + j;
    let ofQuery = 0,
      ofKey = 0,
      size = 0;
    for (let e = 0; e < E; e++) {
      const a = energy ? Math.abs(energy.data[e]) : Math.abs(k[there * E + e]),
        b = energy ? Math.abs(energy.data[e]) : Math.abs(q[at + e]);
      ofQuery += a;
      ofKey += b;
      size += energy ? a : a * b;
    }
    return ofQuery * doubt(tensors.q, row) + ofKey * doubt(tensors.k, there) + ROUNDING * size;
  }

  /** How far the scores of one query may be from PyTorch's, at most; its weights then by twice that share of them. */
  scoreDoubt(head, i) {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = Math.abs(this.entry.scale[head]);
    let most = 0;
    for (let j = 0; j < S; j++)
      if (this.allowed(head, i, j)) most = Math.max(most, scale * this.dotDoubt(place, j) + ROUNDING);
    return most;
  }

  /** How far a weight may be from PyTorch's. */
  weightDoubt(head, i, weight) {
    return this.entry.hard ? 0 : weight * Math.expm1(2 * this.scoreDoubt(head, i));
  }

  /** What the distance from i to j adds to the score; a rotation is in q and k already. */
  position(head, i, j) {
    const told = this.entry.position;
    if (!told || told.kind === "rotary") return 0;
    if (told.kind === "alibi") return -told.slopes[head] * Math.abs(i - j);
    const { table, keys, q, T, E } = this.parts;
    if (told.kind === "t5") {
      const reach = (table.shape[1] - 1) / 2,
        slot = Math.max(-reach, Math.min(reach, j - i)) + reach;
      return table.data[head * table.shape[1] + slot];
    }
    const reach = (keys.shape[0] - 1) / 2,
      slot = Math.max(-reach, Math.min(reach, j - i)) + reach;
    let sum = 0;
    for (let e = 0; e < E; e++) sum += q.data[(head * T + i) * E + e] * keys.data[slot * E + e];
    return this.entry.scale[head] * sum;
  }

  /** (S,) the weights of one query. */
  weights(head, i) {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = this.entry.scale[head],
      row = new Float32Array(S);
    const scores = new Float64Array(S).fill(-Infinity);
    let most = -Infinity,
      total = 0;
    for (let j = 0; j < S; j++) {
      if (!this.allowed(head, i, j)) continue;
      scores[j] = scale * this.dot(place, j) + this.position(head, i, j);
      if (scores[j] > most) most = scores[j];
    }
    if (most === -Infinity) return row; // a query that may look nowhere gets nothing
    if (this.entry.hard) {
      row[scores.indexOf(most)] = 1;
      return row;
    }
    for (let j = 0; j < S; j++) total += scores[j] = Math.exp(scores[j] - most);
    for (let j = 0; j < S; j++) row[j] = scores[j] / total;
    return row;
  }

  /** (W,) the values, weighted and added. */
  mixed(head, i, weights) {
    const { v, S, W } = { ...this.parts, v: this.from(head, i).v },
      group = this.from(head, i).group;
    const sum = new Float64Array(W),
      values = this.parts.values;
    for (let j = 0; j < S; j++) {
      if (!weights[j]) continue;
      for (let e = 0; e < W; e++) sum[e] += weights[j] * v[(group * S + j) * W + e];
      if (!values) continue;
      const reach = (values.shape[0] - 1) / 2,
        slot = Math.max(-reach, Math.min(reach, j - i)) + reach;
      for (let e = 0; e < W; e++) sum[e] += weights[j] * values.data[slot * W + e];
    }
    return sum;
  }

  /** Every step of one query's look, key by key. */
  story(head, i) {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = this.entry.scale[head];
    const weights = this.weights(head, i),
      spread = this.entry.hard ? 0 : Math.expm1(2 * this.scoreDoubt(head, i));
    const keys = Array.from({ length: S }, (_, j) => {
      const dot = this.dot(place, j),
        position = this.position(head, i, j),
        allowed = this.allowed(head, i, j);
      const dotted = this.dotDoubt(place, j),
        doubts = { dot: dotted, scaled: Math.abs(scale) * dotted, position: 0, weight: weights[j] * spread };
      doubts.score = doubts.scaled;
      return {
        j,
        dot,
        scaled: scale * dot,
        position,
        allowed,
        score: scale * dot + position,
        weight: weights[j],
        doubts,
      };
    });
    return { keys, scale, out: this.mixed(head, i, weights), outDoubt: this.outDoubt(head, i, weights, spread) };
  }

  /** How far the sum of the weighted values may be from PyTorch's, in any dimension. */
  outDoubt(head, i, weights, spread) {
    const { S, W } = this.parts,
      { v, group, tensors } = this.from(head, i);
    let sum = 0;
    for (let j = 0; j < S; j++) {
      if (!weights[j]) continue;
      const row = group * S + j;
      let size = 0;
      for (let e = 0; e < W; e++) size = Math.max(size, Math.abs(v[row * W + e]));
      sum += weights[j] * (doubt(tensors.v, row) + (spread + ROUNDING) * size);
    }
    return sum;
  }

  /** The vectors of a query and a key, and how far their numbers may be from the run's. */
  vectors(head, i, j) {
    const { E, S, W } = this.ready(),
      { q, at, k, v, group, tensors, row } = this.from(head, i);
    const there = (group * S + j) * E,
      value = (group * S + j) * W;
    return {
      q: q.slice(at, at + E),
      k: k.slice(there, there + E),
      v: v.slice(value, value + W),
      doubts: { q: doubt(tensors.q, row), k: doubt(tensors.k, group * S + j), v: doubt(tensors.v, group * S + j) },
    };
  }

  /** What PyTorch gave for this query, if the file keeps it: weights (S,) and output (W,). */
  reference(head, i) {
    const row = this.entry.rows.indexOf(i);
    if (row < 0) return null;
    const weights = this.open(this.entry.weights),
      out = this.open(this.entry.out),
      count = this.entry.rows.length;
    const { S, W } = this.ready(),
      at = head * count + row;
    return {
      weights: weights.data.subarray(at * S, (at + 1) * S),
      out: out.data.subarray(at * W, (at + 1) * W),
      outDoubt: doubt(out, at),
    };
  }

  /** The largest difference between what is computed here and what PyTorch gave, over one head's kept rows.
   *
   * Outputs above 1 are compared by their share of the largest: 32 bits keep so many figures, not so many places. */
  difference(head) {
    let most = 0;
    for (const i of this.entry.rows) {
      const told = this.reference(head, i),
        weights = this.weights(head, i),
        out = this.mixed(head, i, weights);
      for (let j = 0; j < weights.length; j++) most = larger(most, Math.abs(weights[j] - told.weights[j]));
      const size = told.out.reduce((high, value) => Math.max(high, Math.abs(value)), 1);
      for (let e = 0; e < out.length; e++) most = larger(most, Math.abs(out[e] - told.out[e]) / size);
    }
    return most;
  }
}

function larger(a, b) {
  return b > a || Number.isNaN(b) ? b : a; // a NaN must show
}

/** Pairs of features turned back (or on) by so many positions: what a rotation did, undone. */
function turned(vector, by, { base, layout }) {
  const E = vector.length,
    half = E / 2,
    out = new Float64Array(E);
  for (let p = 0; p < half; p++) {
    const angle = by * base ** ((-2 * p) / E),
      cos = Math.cos(angle),
      sin = Math.sin(angle);
    const [a, b] = layout === "interleaved" ? [2 * p, 2 * p + 1] : [p, p + half];
    out[a] = vector[a] * cos - vector[b] * sin;
    out[b] = vector[a] * sin + vector[b] * cos;
  }
  return out;
}

/** What kind of looking a head does, from the rows that the file keeps: means over them.
 *
 * Places of two texts cannot be compared: a head that looks at another text has a coverage (the share of its keys that
 * are some query's first choice) instead of a distance. */
function headStatistics(attention, head) {
  const rows = attention.entry.rows.length ? attention.entry.rows : [0],
    across = attention.entry.keys !== attention.entry.queries || attention.entry.kind === "cross",
    sums = { entropy: 0, distance: 0, self: 0, before: 0, first: 0, last: 0 },
    favourites = new Set();
  for (const i of rows) {
    const weights = attention.weights(head, i);
    weights.forEach((weight, j) => {
      if (weight > 0) sums.entropy -= weight * Math.log(weight);
      sums.distance += weight * Math.abs(i - j);
    });
    sums.self += weights[i] || 0;
    sums.before += weights[i - 1] || 0;
    sums.first += weights[0];
    sums.last += weights[weights.length - 1];
    favourites.add(weights.indexOf(Math.max(...weights)));
  }
  const mean = Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / rows.length]));
  const { entropy, first, last, distance, self, before } = mean,
    shared = { entropy, first, last, rows: rows.length, of: attention.T };
  return across ? { ...shared, coverage: favourites.size / attention.S } : { ...shared, distance, self, before };
}
return { Attention, turned, headStatistics };
})();

const in_state = (() => {
// What is chosen on the page, who wants to know of it, and the address that brings it back.

class State {
  constructor(defaults) {
    this.defaults = defaults;
    this.values = { ...defaults };
    this.listeners = [];
  }

  get(key) {
    return this.values[key];
  }

  /** Call `draw` whenever one of these keys changes, and once now. */
  on(keys, draw) {
    this.listeners.push({ keys, draw });
    draw();
  }

  set(changes) {
    const changed = Object.keys(changes).filter((key) => this.values[key] !== changes[key]);
    if (!changed.length) return;
    Object.assign(this.values, changes);
    for (const { keys, draw } of this.listeners) if (keys.some((key) => changed.includes(key))) draw();
    this.write();
  }

  /** The address of what is shown: what differs from the start, after the #. */
  hash() {
    const told = new URLSearchParams();
    for (const [key, value] of Object.entries(this.values)) {
      if (value !== this.defaults[key] && value !== null) told.set(key, String(value));
    }
    return told.toString();
  }

  write() {
    const hash = this.hash();
    try {
      history.replaceState(null, "", hash ? `#${hash}` : "#");
    } catch {
      /* a page inside another may not */
    }
  }

  /** Take up what an address says, each value in the type of its default; what it says of unknown things is dropped. */
  read(hash, allowed) {
    const changes = {};
    const plain = /^#([a-z-]+)$/.exec(hash); // the bare name of a section
    for (const [key, text] of new URLSearchParams(plain ? `s=${plain[1]}` : hash.replace(/^#/, ""))) {
      if (!(key in this.defaults)) continue;
      const value = typeof this.defaults[key] === "number" ? Number(text) : text;
      if (allowed(key, value)) changes[key] = value;
    }
    this.set(changes);
  }
}
return { State };
})();

const in_page = (() => {
// What all figures share: the payload, what is chosen, the attention that is looked at.

const { Attention } = in_attention;
const { openerOf } = in_tensors;
const { visible } = in_dom;
const { pause } = in_canvas;
const { State } = in_state;

/** Whether an element is on the screen, or less than a screen away from it. */
function inSight(root) {
  const { top, bottom } = root.getBoundingClientRect();
  return bottom > -innerHeight && top < 2 * innerHeight;
}

class Page {
  constructor(payload) {
    this.payload = payload;
    this.open = openerOf(payload.tensors);
    this.attentions = payload.attentions.map((entry) => new Attention(entry, this.open));
    const defaults = {
      attention: this.firstAttention(),
      head: 0,
      key: -1,
      theme: "auto",
      alpha: payload.trace ? payload.trace.alpha : 0,
      line: 0,
      off: "",
      rollout: "off",
      s: "", // the section that an address leads to
    };
    for (const [name, { tokens, start }] of Object.entries(payload.sequences))
      defaults[`at.${name}`] = start ?? Math.max(0, tokens.length - 1);
    this.names = new Map(); // of a sequence's tokens, as sentences call them
    this.state = new State({ ...defaults, ...payload.start });
    this.redraws = [];
    this.late = new Set(); // what is to be drawn again, out of sight
    this.catching = false;
    this.themes = [];
    this.told = null;
    this.state.on(this.looked(), () => {
      this.told = null;
    });
  }

  /** The last layer that looks from what is written at what was read, else the last of all. */
  firstAttention() {
    const last = (kind) => this.attentions.map(({ entry }) => entry.kind).lastIndexOf(kind);
    return Math.max(0, last("cross") >= 0 ? last("cross") : last("self"));
  }

  get attention() {
    return this.attentions[this.state.get("attention")];
  }

  choose(sequence, n) {
    const changes = { [`at.${sequence}`]: n };
    const entry = this.attention && this.attention.entry;
    if (entry && entry.queries === sequence) changes.key = -1;
    else if (entry && entry.keys === sequence) changes.key = n;
    this.state.set(changes);
  }

  /** What is looked at: one query of one head. The key is the chosen one, else the one with most weight. */
  look() {
    if (this.told) return this.told;
    const attention = this.attention,
      { queries, keys } = attention.entry;
    const head = Math.min(this.state.get("head"), attention.heads - 1),
      i = Math.min(this.state.get(`at.${queries}`), attention.T - 1);
    const story = attention.story(head, i),
      chosen = this.state.get("key");
    const j =
      chosen >= 0
        ? Math.min(chosen, attention.S - 1)
        : story.keys.reduce((best, key) => (key.weight > best.weight ? key : best)).j;
    const cross = attention.entry.kind === "cross",
      asking = this.namesOf(queries, attention.T, cross),
      who = cross && this.payload.sequences[queries].writes ? `Writing ${asking[i]}` : asking[i];
    this.told = { attention, head, i, j, story, who, queries: asking, keys: this.namesOf(keys, attention.S) };
    return this.told;
  }

  /** What the first `count` tokens of a sequence are called; with `writing`, after what is written at their places. */
  namesOf(name, count, writing = false) {
    const key = `${name} ${count} ${writing}`;
    if (!this.names.has(key)) {
      const { tokens, writes, unit, before } = this.payload.sequences[name];
      this.names.set(
        key,
        tokens.slice(0, count).map((piece, n) => {
          if (writing && writes) return `${visible(writes[n] ?? "")} (after ${visible(piece)})`;
          return unit ? (n < before ? `${piece} token` : `${unit} ${piece}`) : visible(piece);
        }),
      );
    }
    return this.names.get(key);
  }

  /** Draw when the figure stands on the page, whenever one of these keys changes, and when the room does.
   *
   * With `root`, the figure's element, a figure out of sight is drawn a little later: first what is seen. */
  watch(keys, draw, root = null) {
    this.redraws.push({ draw, root });
    this.state.listeners.push({ keys, draw: () => this.drawn({ draw, root }) });
  }

  /** The same, for whatever another query, key or head changes. */
  onLook(draw, root = null) {
    this.watch(this.looked(), draw, root);
  }

  /** The keys of the state that say what is looked at. */
  looked() {
    return ["attention", "head", "key", ...Object.keys(this.payload.sequences).map((name) => `at.${name}`)];
  }

  onSize(draw) {
    this.redraws.push({ draw, root: null });
  }

  drawn({ draw, root }) {
    if (!root || root.hidden || inSight(root)) {
      this.late.delete(draw);
      draw();
    } else {
      this.late.add(draw);
      this.catchUp();
    }
  }

  /** Draw what waits, a figure at a time: the page answers in between. */
  async catchUp() {
    if (this.catching) return;
    this.catching = true;
    document.documentElement.dataset.late = "yes";
    while (this.late.size) {
      await pause();
      const [next] = this.late;
      if (next) next();
      this.late.delete(next);
    }
    delete document.documentElement.dataset.late;
    this.catching = false;
  }

  onTheme(draw) {
    this.themes.push(draw);
  }

  place() {
    const { sequence, ids } = this.payload.output;
    return sequence ? Math.min(this.state.get(`at.${sequence}`), ids.length - 1) : 0;
  }

  redraw() {
    for (const each of this.redraws) this.drawn(each);
  }

  /** Whether an address may set this. */
  allows(key, value) {
    if (key === "attention") return Number.isInteger(value) && value >= 0 && value < this.attentions.length;
    if (key.startsWith("at."))
      return Number.isInteger(value) && value >= 0 && value < this.payload.sequences[key.slice(3)].tokens.length;
    if (key === "theme") return ["auto", "light", "dark"].includes(value);
    if (key === "s") return /^[a-z-]*$/.test(value);
    if (key === "rollout") return ["one", "mean", "rollout"].includes(value);
    if (key === "off") return /^\d*$/.test(value);
    if (key === "alpha") return value >= 0 && value <= 10;
    if (key === "line")
      return (
        Number.isInteger(value) && value >= 0 && value < (this.payload.trace ? this.payload.trace.lines.length : 0)
      );
    return Number.isInteger(value) && value >= (key === "key" ? -1 : 0);
  }
}
return { Page };
})();

const in_badge = (() => {
// The badge: what the page computes and shows, beside what PyTorch gave.

const { figures } = in_numbers;
const { pause } = in_canvas;

/** Let the page have its turn whenever some computing took long. */
function turns() {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < 24) return;
    await pause();
    since = performance.now();
  };
}

/** The largest of some numbers; a NaN must show. */
function worst(values) {
  return values.reduce((most, value) => (value > most || Number.isNaN(value) ? value : most), 0);
}

/** Rows of weights and outputs, a head at a time. */
async function attentionRows(page) {
  const turn = turns(),
    found = [];
  let rows = 0;
  for (const attention of page.attentions) {
    for (let head = 0; head < attention.heads; head++) {
      found.push(attention.difference(head));
      rows += attention.entry.rows.length;
      await turn();
    }
  }
  return {
    what: "attention",
    most: worst(found),
    count: `${rows.toLocaleString("en")} rows`,
    bound: exact(page) ? 1e-5 : 1e-3,
  };
}

/** Embeddings, positions and streams: some of the numbers shown, as a share of their row's largest. */
async function vectors(page) {
  const turn = turns(),
    found = [];
  let count = 0;
  for (const { tensor, every, values } of page.payload.checks) {
    const { shape, data } = page.open(tensor),
      width = shape[shape.length - 1];
    page.open(values).data.forEach((value, n) => {
      const at = n * every,
        row = data.subarray(Math.floor(at / width) * width, (Math.floor(at / width) + 1) * width);
      const size = row.reduce((most, each) => Math.max(most, Math.abs(each)), 1e-30);
      found.push(Math.abs(data[at] - value) / size);
      count += 1;
    });
    await turn();
  }
  return {
    what: "vectors",
    most: worst(found),
    count: `${count.toLocaleString("en")} numbers`,
    bound: exact(page) ? 1e-6 : 4e-3,
  };
}

/** Probabilities: the softmax of this page and PyTorch's. */
function probabilities(page) {
  const { output } = page.payload;
  if (!output) return { what: "probabilities", most: 0, count: "", bound: 1 };
  const logits = page.open(output.logits),
    shares = page.open(output.shares),
    whole = page.open(output.normaliser),
    K = logits.shape[1];
  const found = Array.from(logits.data, (logit, n) =>
    Math.abs(Math.exp(logit - whole.data[Math.floor(n / K)]) - shares.data[n]),
  );
  return { what: "probabilities", most: worst(found), count: found.length.toLocaleString("en"), bound: 1e-5 };
}

function exact(page) {
  return page.payload.precision === "float32";
}

/** What the page computes and shows, beside what PyTorch gave: within its bounds or not. */
async function compared(page) {
  const badge = document.getElementById("badge"),
    all = [await attentionRows(page), await vectors(page), probabilities(page)].filter(
      ({ count }) => !/^0?( |$)/.test(count),
    );
  const good = all.every(({ most, bound }) => most <= bound);
  badge.dataset.difference = String(worst(all.filter(({ what }) => what !== "vectors").map(({ most }) => most)));
  for (const { what, most } of all) badge.dataset[what] = String(most);
  badge.classList.add(good ? "good" : "bad");
  badge.textContent = !all.length
    ? "Nothing here to compare with PyTorch"
    : good
      ? "Agrees with PyTorch"
      : "Differs from PyTorch";
  document.getElementById("agreement").textContent = all.length
    ? `Largest differences from PyTorch: ${all
        .map(({ what, most, count }) => `${what} ${most ? figures(most, 2) : "0"} (${count})`)
        .join(", ")}.`
    : "";
}
return { compared };
})();

const in_tips = (() => {
// Tips: exact numbers where the pointer, the finger or the focus is.

const { el } = in_dom;

let bubble = null;

function tipAt(x, y, lines) {
  if (!bubble) document.body.append((bubble = el("div", { class: "tip", role: "status", "aria-live": "polite" })));
  bubble.replaceChildren(...lines.map((line, n) => el(n ? "div" : "strong", { dir: "auto" }, line)));
  bubble.hidden = false;
  const { width, height } = bubble.getBoundingClientRect(),
    room = 8;
  bubble.style.left = `${Math.max(room, Math.min(x + 14, innerWidth - width - room))}px`;
  bubble.style.top = `${y - height - 12 < room ? y + 18 : y - height - 12}px`; // above: below it is what it explains
}

function hideTip() {
  if (bubble) bubble.hidden = true;
}

let tapping = false; // on a screen that is touched a tip stays until the next touch

function watchTouches() {
  if (tapping) return;
  tapping = true;
  addEventListener("pointerdown", (event) => event.pointerType === "touch" && hideTip(), true);
  addEventListener("scroll", hideTip, { passive: true }); // of the page: figures scroll by themselves when they are drawn
}

/** Exact numbers where the pointer, the finger or the focus is; `lines(event)` gives null for nothing.
 *
 * Only what takes the focus anyway listens to it: an SVG element with such a listener would become a tab stop. */
function tip(node, lines) {
  const show = (event) => {
    const told = lines(event);
    told ? tipAt(event.clientX, event.clientY, told) : hideTip();
  };
  watchTouches();
  node.addEventListener("pointermove", (event) => event.pointerType !== "touch" && show(event));
  node.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideTip());
  node.addEventListener("click", (event) => event.pointerType === "touch" && show(event));
  if (node instanceof SVGElement && !node.hasAttribute("tabindex")) return node;
  node.addEventListener("blur", hideTip);
  node.addEventListener("focus", (event) => {
    const told = node.matches(":focus-visible") && lines(event),
      box = node.getBoundingClientRect();
    if (told) tipAt(box.left, box.top + 4, told);
  });
  return node;
}
return { tipAt, hideTip, tip };
})();

const in_keyboard = (() => {
// The keyboard: every figure is one stop of the tab key, and arrows move inside it.

/** Make parts of a drawing choosable: one stop of the tab key, arrows move, Enter and Space choose.
 *
 * `root` becomes a list box, each of `items` an option with a name; `columns` is how far up and down are apart. */
function choices(root, items, { label, columns = 1 }) {
  root.setAttribute("role", "listbox");
  root.setAttribute("aria-label", label);
  const start = Math.max(
    0,
    items.findIndex((item) => item.chosen),
  );
  items.forEach(({ node, name, key, chosen }, n) => {
    node.setAttribute("role", "option");
    node.setAttribute("aria-label", name);
    node.setAttribute("aria-selected", String(Boolean(chosen)));
    node.setAttribute("tabindex", n === start ? 0 : -1);
    node.dataset.key = key;
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
      }
      const step = { ArrowDown: columns, ArrowUp: -columns, ArrowRight: 1, ArrowLeft: -1 }[event.key],
        next = event.key === "Home" ? items[0] : event.key === "End" ? items[items.length - 1] : items[n + step];
      if (!next) return;
      event.preventDefault();
      for (const other of items) other.node.setAttribute("tabindex", other === next ? 0 : -1);
      next.node.focus();
      next.node.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  });
}

/** Arrow keys move the focus among the buttons of a group, which is one stop of the tab key.
 *
 * Up and down go to the same place of the row before and after, where the buttons stand in rows (`.row`). With
 * `press` the button that is reached is pressed as well. */
function roving(group, { press = true } = {}) {
  const buttons = () => [...group.querySelectorAll("button")].filter((button) => !button.hidden);
  const settle = (chosen) => {
    for (const button of buttons()) button.tabIndex = button === chosen ? 0 : -1;
  };
  group.addEventListener("keydown", (event) => {
    const all = buttons(),
      at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const back = getComputedStyle(group).direction === "rtl" ? 1 : -1,
      to = {
        ArrowRight: () => all[at - back],
        ArrowLeft: () => all[at + back],
        ArrowDown: () => nearby(group, all[at], 1) || all[at + 1],
        ArrowUp: () => nearby(group, all[at], -1) || all[at - 1],
        Home: () => all[0],
        End: () => all[all.length - 1],
      }[event.key];
    if (!to) return;
    event.preventDefault();
    const next = to();
    if (!next || next === all[at]) return;
    settle(next);
    next.focus();
    if (press) next.click();
  });
  return () => {
    const all = buttons();
    settle(
      all.find((button) => button.getAttribute("aria-pressed") === "true") ||
        all.find((button) => button === document.activeElement) ||
        all[0],
    );
  };
}

/** The button of the row before or after that stands in the same place; the button itself at either end. */
function nearby(group, button, step) {
  const rows = [...group.querySelectorAll(".row")],
    row = rows.findIndex((each) => each.contains(button));
  if (row < 0) return null;
  const place = [...rows[row].querySelectorAll("button")].indexOf(button),
    other = rows[row + step] && rows[row + step].querySelectorAll("button");
  return other ? other[Math.min(place, other.length - 1)] : button;
}
return { choices, roving };
})();

const in_colour = (() => {
// Colours of numbers, in either theme: one hue for shares from 0 to 1, two for numbers of either sign.

const RAMPS = {
  light: {
    share: ["#f6f8fb", "#c4d8f2", "#6f9fd8", "#2c62ad", "#0d2c63"],
    minus: "#b3541e",
    plus: "#1f5fae",
    zero: "#f6f8fb",
  },
  dark: {
    share: ["#171b22", "#1f3a5c", "#33669f", "#6ea3de", "#e3efff"],
    minus: "#f0a35e",
    plus: "#7ab2f5",
    zero: "#171b22",
  },
};
const STEPS = 256;
const made = new Map();

function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

function rampOf(kind) {
  const key = `${theme()} ${kind}`;
  if (!made.has(key)) {
    const { share, minus, plus, zero } = RAMPS[theme()];
    const below = d3.interpolateRgbBasis([minus, zero]),
      above = d3.interpolateRgbBasis([zero, plus]);
    const ramp = kind === "share" ? d3.interpolateRgbBasis(share) : (t) => (t < 0.5 ? below(2 * t) : above(2 * t - 1));
    made.set(
      key,
      Array.from({ length: STEPS }, (_, n) => d3.rgb(ramp(n / (STEPS - 1)))),
    );
  }
  return made.get(key);
}

/** The ramp of shares as pixels, for n of 0 to 255: n is 255 times the root of the share. */
function sharePixels() {
  const key = `${theme()} pixels`;
  if (!made.has(key))
    made.set(
      key,
      Uint32Array.from(rampOf("share"), ({ r, g, b }) => (255 << 24) | (b << 16) | (g << 8) | r),
    );
  return made.get(key);
}

function at(ramp, share) {
  return ramp[Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))))];
}

/** The colour of a share from 0 to 1; shade grows with its root, so that small ones show. */
function shareColour(share) {
  return at(rampOf("share"), Math.sqrt(Math.max(share, 0)));
}

/** The colour of a number between -most and most. */
function signedColour(value, most) {
  return at(rampOf("signed"), 0.5 + value / (2 * (most || 1)));
}

/** Ink that can be read on a colour. */
function inkOn({ r, g, b }) {
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255 > 0.55 ? "#10151d" : "#ffffff";
}
return { theme, sharePixels, shareColour, signedColour, inkOn };
})();

const in_export = (() => {
// Any figure as a file: its title, sentences and stage are redrawn as one SVG; a PNG is that SVG, twice as fine.

const SPACE = 16;
const LEFT_OUT = ".tools, .behind, .tabs, .control button, .control input"; // what one works the page with
const STYLED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "fill-opacity",
  "stroke-opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
  "direction",
];
const NAMESPACE = "http://www.w3.org/2000/svg";

function node(tag, attributes, text) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function clear(colour) {
  return colour === "transparent" || /rgba?\([^)]*,\s*0\)$/.test(colour) || /\/ 0\)$/.test(colour);
}

function copied(original) {
  const copy = original.cloneNode(true),
    from = [original, ...original.querySelectorAll("*")],
    to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((each, n) => {
    const style = getComputedStyle(each);
    for (const key of STYLED) to[n].setAttribute(key, style.getPropertyValue(key));
    to[n].removeAttribute("class");
    to[n].removeAttribute("style");
  });
  return copy;
}

/** The lines of a text as it is laid out: [text, box] of each. */
function linesOf(text) {
  const range = document.createRange(),
    lines = [];
  for (const { 0: word, index } of text.nodeValue.matchAll(/\S+\s*/g)) {
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    const box = range.getBoundingClientRect(),
      last = lines[lines.length - 1];
    if (!box.width) continue;
    if (last && Math.abs(last.top - box.top) < box.height / 2) last.text += word;
    else lines.push({ text: word, left: box.left, top: box.top, height: box.height, right: box.right });
    lines[lines.length - 1].right = box.right;
  }
  return lines;
}

function drawText(out, text, place) {
  const style = getComputedStyle(text.parentElement);
  for (const line of linesOf(text)) {
    out.append(
      node(
        "text",
        {
          x: line.left - place.left + SPACE,
          y: line.top - place.top + SPACE + line.height * 0.78,
          fill: style.color,
          "font-family": style.fontFamily,
          "font-size": style.fontSize,
          "font-weight": style.fontWeight,
          direction: style.direction,
        },
        line.text.trimEnd(),
      ),
    );
    place.reach(line.right, line.top + line.height);
  }
}

function drawElement(out, each, place) {
  const style = getComputedStyle(each),
    box = each.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || !box.width || !box.height) return;
  if (each.matches(LEFT_OUT)) return;
  const x = box.left - place.left + SPACE,
    y = box.top - place.top + SPACE,
    size = { x, y, width: box.width, height: box.height };
  if (each instanceof HTMLCanvasElement) {
    out.append(
      node("image", {
        ...size,
        href: each.toDataURL("image/png"),
        "image-rendering": "pixelated",
        preserveAspectRatio: "none",
      }),
    );
    place.reach(box.right, box.bottom);
    return;
  }
  if (each instanceof SVGElement) {
    const copy = copied(each);
    for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
    out.append(copy);
    place.reach(box.right, box.bottom);
    return;
  }
  if (!clear(style.backgroundColor)) {
    out.append(node("rect", { ...size, fill: style.backgroundColor, rx: parseFloat(style.borderRadius) || 0 }));
    place.reach(box.right, box.bottom);
  }
  for (const child of each.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) drawText(out, child, place);
    else if (child.nodeType === Node.ELEMENT_NODE) drawElement(out, child, place);
  }
}

/** Where a figure begins, and how far what was drawn of it reaches: further than its box, where it scrolls. */
function placeOf(root) {
  const { left, top } = root.querySelector(".head").getBoundingClientRect();
  const place = { left, top, width: 0, height: 0 };
  place.reach = (right, bottom) => {
    place.width = Math.max(place.width, right - left);
    place.height = Math.max(place.height, bottom - top);
  };
  return place;
}

/** Do something while the figure is laid out whole: nothing scrolled, nothing cut off. */
function whole(root, act) {
  const scrolled = [root, ...root.querySelectorAll("*")].filter((each) => each.scrollLeft || each.scrollTop),
    before = scrolled.map((each) => [each, each.scrollLeft, each.scrollTop]);
  for (const each of scrolled) each.scrollTo({ left: 0, top: 0, behavior: "instant" });
  root.classList.add("whole");
  try {
    return act();
  } finally {
    root.classList.remove("whole");
    for (const [each, left, top] of before) each.scrollTo({ left, top, behavior: "instant" });
  }
}

/** The figure as one SVG: its title, its sentences, what it shows, and its legend. */
function picture(root, title) {
  const parts = [],
    place = whole(root, () => {
      const found = placeOf(root),
        into = { append: (part) => parts.push(part) };
      for (const child of root.children) drawElement(into, child, found);
      return found;
    });
  const width = Math.ceil(place.width + 2 * SPACE),
    height = Math.ceil(place.height + 2 * SPACE);
  const out = node("svg", { xmlns: NAMESPACE, viewBox: `0 0 ${width} ${height}`, width, height });
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--ground").trim();
  out.append(node("title", {}, title), node("rect", { width, height, fill: ground }), ...parts);
  return { text: new XMLSerializer().serializeToString(out), width, height };
}

async function asSvg(root, title) {
  return new Blob([picture(root, title).text], { type: "image/svg+xml" });
}

async function asPng(root, title) {
  const { text, width, height } = picture(root, title),
    image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas"),
    fine = Math.min(2, 8000 / Math.max(width, height));
  canvas.width = width * fine;
  canvas.height = height * fine;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function saved(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
return { asSvg, asPng, saved };
})();

const in_figure = (() => {
// A figure: a title, a sentence, a stage to draw on, and behind it a table and the picture as a file.

const { el, swap } = in_dom;
const { roving } = in_keyboard;
const { asSvg, asPng, saved } = in_export;

let figuresMade = 0;

/** {root, stage, refresh}; `rows` gives the table's element when it is asked for. */
function figure({ title, note, rows, tools = [], name }) {
  const id = `figure-${++figuresMade}`,
    stage = el("div", { class: "stage" }),
    behind = el("div", { class: "behind", id: `${id}-table`, role: "region", tabindex: 0, hidden: true });
  const file = name || title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const caption = el("figcaption", { id }, title);
  const save = (kind, make) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Save “${title}” as ${kind}`,
        onclick: async () => saved(await make(root, caption.textContent), `${file}.${kind.toLowerCase()}`),
      },
      kind,
    );
  const numbers =
    rows &&
    el(
      "button",
      {
        type: "button",
        class: "quiet numbers",
        "aria-label": `Numbers of “${title}” as a table`,
        "aria-expanded": "false",
        "aria-controls": behind.id,
        onclick: () => {
          behind.hidden = !behind.hidden;
          numbers.setAttribute("aria-expanded", String(!behind.hidden));
          refresh();
        },
      },
      "Table",
    );
  const bar = el(
    "div",
    { class: "tools", role: "toolbar", "aria-label": `${title}: tools` },
    tools,
    save("SVG", asSvg),
    save("PNG", asPng),
    numbers,
  );
  const root = el(
    "figure",
    { class: "figure", "aria-labelledby": id },
    el("div", { class: "head" }, caption, bar),
    note ? el("p", { class: "note" }, note) : null,
    stage,
    rows ? behind : null,
  );
  roving(bar, { press: false })();
  behind.setAttribute("aria-label", `Numbers of “${title}”`);
  function refresh() {
    if (!behind.hidden) swap(behind, rows());
    for (const wide of stage.querySelectorAll(".wide")) reachable(wide, title);
  }
  return { root, stage, refresh };
}

/** What scrolls sideways can be scrolled with the keys, too: it is a stop of the tab key unless it has one inside. */
function reachable(wide, title) {
  const scrolls = wide.scrollWidth > wide.clientWidth + 1 && !wide.querySelector("[tabindex='0'], button");
  for (const [name, value] of [
    ["tabindex", "0"],
    ["role", "group"],
    ["aria-label", title],
  ])
    scrolls ? wide.setAttribute(name, value) : wide.removeAttribute(name);
}
return { figure };
})();

const in_legend = (() => {
// What the shades mean.

const { svg } = in_dom;
const { percent } = in_numbers;
const { shareColour } = in_colour;

/** The legend of shares. */
function shareLegend() {
  const ticks = [0, 0.01, 0.1, 0.25, 0.5, 1],
    wide = 44;
  return svg(
    "svg",
    {
      class: "legend",
      width: ticks.length * wide,
      height: 30,
      role: "img",
      "aria-label": "Shades from weight 0 to weight 1; shade grows with the root of the weight",
    },
    ticks.map((share, n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: shareColour(share).formatHex() }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, percent(share).replace(".0%", "%")),
    ]),
  );
}
return { shareLegend };
})();

const in_glance = (() => {
// All layers and heads at a glance: a small matrix each, to be chosen.

const { el, table } = in_dom;
const { tip } = in_tips;
const { roving } = in_keyboard;
const { figures, percent } = in_numbers;
const { fitted, cells, drawCells, pause } = in_canvas;
const { shareColour } = in_colour;
const { headStatistics } = in_attention;
const { figure } = in_figure;
const { shareLegend } = in_legend;

const SIZE = 54,
  FINE = 48; // pixels a side, and rows that are computed for it

/** Attentions that belong side by side: one stack's, of one kind. */
function grouped(attentions) {
  const groups = new Map();
  attentions.forEach((attention, index) => {
    const { label, kind } = attention.entry,
      key = `${label}${kind === "cross" ? ", looking at the source" : ""}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ attention, index });
  });
  return groups;
}

function thumbnail(canvas, attention, head) {
  const T = Math.min(attention.T, FINE),
    S = Math.min(attention.S, FINE),
    step = attention.S / S;
  const rows = Array.from({ length: T }, (_, n) => attention.weights(head, Math.floor((n * attention.T) / T)));
  const image = cells(S, T, (x, y) => {
    let most = 0;
    for (let j = Math.floor(x * step); j < Math.floor((x + 1) * step); j++) most = Math.max(most, rows[y][j]);
    return shareColour(most);
  });
  drawCells(fitted(canvas, SIZE, SIZE), image, 0, 0, SIZE, SIZE);
}

function glance(page) {
  const { attentions, state } = page,
    jobs = [],
    settle = [];
  const told = new Map();
  const statistics = (attention, head) => {
    const key = `${attention.entry.name} ${head}`;
    if (!told.has(key)) told.set(key, headStatistics(attention, head));
    return told.get(key);
  };
  const heads = attentions.reduce((sum, { heads: own }) => sum + own, 0);
  const made = figure({
    title: heads > 1 ? "Every head" : "The head",
    name: "heads",
    note:
      (heads > 1
        ? "One small matrix a head: queries down, keys across, darker where more weight lies. Choose one to open it below."
        : "Queries down, keys across, darker where more weight lies.") +
      (page.payload.left_out
        ? ` To keep the file small, ${page.payload.left_out} of ${page.payload.left_out + attentions.length} layers are left out.`
        : ""),
    rows: () =>
      table(
        "Heads: means over the queries whose rows the file keeps",
        [
          "head",
          "queries",
          "entropy (nats)",
          "on the first key",
          "on the last key",
          "mean distance",
          "on itself",
          "on the token before",
          "coverage of the keys",
        ],
        attentions.flatMap((attention) =>
          Array.from({ length: attention.heads }, (_, head) => {
            const s = statistics(attention, head),
              share = (value) => (value === undefined ? "–" : percent(value));
            return [
              `${nameOf(attention)}, head ${head + 1}`,
              s.rows < s.of ? `${s.rows} of ${s.of}` : String(s.of),
              s.entropy,
              share(s.first),
              share(s.last),
              s.distance ?? "–",
              share(s.self),
              share(s.before),
              share(s.coverage),
            ];
          }),
        ),
      ),
  });
  const groups = el("div", { class: "groups" });
  const legend = el("div", { class: "wide" });
  made.stage.append(groups, legend);
  for (const [name, members] of grouped(attentions)) {
    const grid = el("div", { class: "heads", role: "group", "aria-label": name });
    for (const { attention, index } of members) {
      const row = el(
        "div",
        { class: "row" },
        el("span", { class: "layer" }, `${attention.entry.unit} ${attention.entry.layer + 1}`),
      );
      for (let head = 0; head < attention.heads; head++) {
        const canvas = el("canvas", { "aria-hidden": "true" });
        const button = el(
          "button",
          {
            type: "button",
            class: "thumb",
            "aria-label": `${nameOf(attention)}, head ${head + 1}`,
            onclick: () => state.set({ attention: index, head, key: -1 }),
          },
          canvas,
        );
        tip(button, () => {
          const s = statistics(attention, head);
          return [
            `${nameOf(attention)}, head ${head + 1}`,
            `entropy ${figures(s.entropy)} nats`,
            ...(s.coverage === undefined
              ? [
                  `mean distance ${figures(s.distance)}`,
                  `on itself ${percent(s.self)}, before ${percent(s.before)}, first ${percent(s.first)}`,
                ]
              : [
                  `first key ${percent(s.first)}, last key ${percent(s.last)}`,
                  `${percent(s.coverage)} of the keys are some query's first choice`,
                ]),
            ...(s.rows < s.of ? [`means over ${s.rows} of ${s.of} queries`] : []),
          ];
        });
        jobs.push(() => thumbnail(canvas, attention, head));
        settle.push(() =>
          button.setAttribute("aria-pressed", String(state.get("attention") === index && state.get("head") === head)),
        );
        row.append(button);
      }
      grid.append(row);
    }
    settle.push(roving(grid));
    groups.append(el("div", { class: "group" }, el("h3", { class: "small" }, name), grid));
  }
  state.on(["attention", "head"], () => settle.forEach((each) => each()));
  let turn = 0;
  async function paint() {
    const mine = ++turn;
    let since = performance.now();
    for (const job of jobs) {
      job();
      if (performance.now() - since > 24) {
        await pause();
        since = performance.now();
      }
      if (mine !== turn) return;
    }
    legend.replaceChildren(shareLegend());
    made.root.dataset.painted = "yes";
  }
  page.onTheme(paint);
  return made.root;
}

function nameOf(attention) {
  const { label, kind, layer, unit } = attention.entry;
  return `${label} ${kind === "cross" ? "cross-attention" : unit} ${layer + 1}`;
}
return { grouped, glance, nameOf };
})();

const in_navigation = (() => {
// The bar of links to the sections, and which of them is read.

const { el, shortened } = in_dom;
const { nameOf } = in_glance;

/** The bar: room for the links, and beside or below them what is chosen, always in sight. */
function bar(page) {
  const links = el("div", { class: "links" }),
    now = el("p", { class: "now" }),
    nav = el("nav", { "aria-label": "Parts of the page" }, links, page.attentions.length ? now : null);
  if (page.attentions.length)
    page.state.on(page.looked(), () => {
      const { attention, head, queries, keys, i, j } = page.look();
      now.replaceChildren(
        el("bdi", {}, shortened(queries[i], 24)),
        " → ",
        el("bdi", {}, shortened(keys[j], 16)),
        el("span", { class: "where" }, `${nameOf(attention)}, head ${head + 1}`),
      );
    });
  return { nav, links };
}

/** A link in the bar to a section. */
function listed(page, links, each) {
  each.querySelector("h2").tabIndex = -1;
  links.append(
    el(
      "a",
      {
        href: `#${each.id}`,
        onclick: (event) => {
          event.preventDefault(); // the address after the # is that of the view, with the section in it
          page.state.set({ s: each.id });
          arrived(each, matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth");
        },
      },
      each.dataset.short,
    ),
  );
}

function arrived(each, behavior) {
  each.scrollIntoView({ behavior });
  each.querySelector("h2").focus({ preventScroll: true });
}

/** The bar says which section is read; titles stop below it, however many lines it has. */
function oriented(nav, links, main) {
  const measure = () => document.documentElement.style.setProperty("--bar", `${nav.offsetHeight}px`);
  new ResizeObserver(measure).observe(nav);
  measure();
  let waiting = 0;
  const settle = () => {
    waiting = 0;
    const line = nav.offsetHeight + innerHeight / 4;
    const above = [...main.children].filter((each) => each.getBoundingClientRect().top <= line),
      at = above[above.length - 1] || main.children[0];
    for (const link of links.children) {
      const here = at && link.getAttribute("href") === `#${at.id}`;
      if (here === link.hasAttribute("aria-current")) continue;
      here ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
      if (here && links.scrollWidth > links.clientWidth) links.scrollTo({ left: link.offsetLeft - 40 });
    }
  };
  addEventListener("scroll", () => (waiting = waiting || requestAnimationFrame(settle)), { passive: true });
  settle();
}
return { bar, listed, arrived, oriented };
})();

const in_layout = (() => {
// Where things stand: the tokens of a beam tree (a column a step, close to where they come from, none on another), labels.

const WEIGHT = { won: 1e9, ended: 10, kept: 10, pruned: 1 }; // who may stay level with its parent

/** Places at least 1 apart, in this order, as near to the wanted ones as can be. */
function apart(wanted, weights) {
  const pools = [];
  wanted.forEach((place, n) => {
    pools.push([place - n, weights[n], 1]);
    while (pools.length > 1 && pools[pools.length - 2][0] > pools[pools.length - 1][0]) {
      const [b, w, m] = pools.pop(),
        [a, v, k] = pools.pop();
      pools.push([(a * v + b * w) / (v + w), v + w, k + m]);
    }
  });
  const level = pools.flatMap(([mean, , members]) => Array(members).fill(Math.max(mean, 0)));
  return level.map((mean, n) => mean + n);
}

/** A row for each node: in the order of their parents, level with them where there is room. */
function placed(nodes) {
  const y = new Array(nodes.length).fill(0),
    steps = Math.max(0, ...nodes.map((each) => each.step + 1));
  for (let step = 0; step < steps; step++) {
    const wanted = (n) => (nodes[n].parent === null ? 0 : y[nodes[n].parent]);
    const column = nodes
      .flatMap((each, n) => (each.step === step ? [n] : []))
      .sort(
        (a, b) =>
          wanted(a) - wanted(b) ||
          (nodes[a].status !== "won") - (nodes[b].status !== "won") ||
          nodes[b].nats - nodes[a].nats,
      );
    apart(
      column.map(wanted),
      column.map((n) => WEIGHT[nodes[n].status]),
    ).forEach((row, n) => {
      y[column[n]] = row;
    });
  }
  return { y, steps };
}

/** Which of `count` labels to draw: every so many, and the chosen one with room around it. */
function ticks(count, every, chosen) {
  const found = [];
  for (let n = 0; n < count; n++)
    if (n === chosen || (n % every === 0 && !(Math.abs(n - chosen) < every))) found.push(n);
  return found;
}
return { placed, ticks };
})();

const in_tokens = (() => {
// A text as a row of tokens to choose from.

const { el, visible, directionOf } = in_dom;
const { tip } = in_tips;
const { roving } = in_keyboard;

const JOINED = "·"; // in front of a token that continues a word

/** Buttons for the tokens of a sequence; `shade(n)` gives a colour or null, `lines(n)` the tooltip. */
function tokenStrip(page, name, { shade = () => null, ink = () => null, lines = () => null, label } = {}) {
  const { state, payload } = page,
    sequence = payload.sequences[name];
  const buttons = sequence.tokens.map((piece, n) => {
    const button = el(
      "button",
      {
        type: "button",
        class: piece.startsWith(JOINED) && piece !== JOINED ? "token joined" : "token",
        "aria-label": `${visible(piece)}, token ${n + 1}`,
        onclick: () => page.choose(name, n),
      },
      el("bdi", {}, visible(piece)),
    );
    return tip(
      button,
      () =>
        lines(n) || [
          visible(piece),
          `token ${n + 1} of ${sequence.tokens.length}`,
          ...(sequence.ids ? [`id ${sequence.ids[n]} of the vocabulary`] : []),
          ...(piece.startsWith(JOINED) ? ["continues the word before it"] : []),
        ],
    );
  });
  const strip = el(
    "div",
    { class: "tokens", role: "group", "aria-label": label || sequence.label, dir: directionOf(sequence.tokens) },
    buttons,
  );
  const settle = roving(strip);
  function refresh() {
    buttons.forEach((button, n) => {
      button.setAttribute("aria-pressed", String(state.get(`at.${name}`) === n));
      button.style.background = shade(n) || "";
      button.style.color = ink(n) || "";
    });
    settle();
  }
  state.on([`at.${name}`], refresh);
  return { node: strip, refresh };
}
return { tokenStrip };
})();

const in_input = (() => {
// The beginning: tokens, their vectors, and where they stand.

const { el, shortened, table } = in_dom;
const { tip, tipAt } = in_tips;
const { decimals, figures } = in_numbers;
const { roving } = in_keyboard;
const { doubt } = in_tensors;
const { ticks } = in_layout;
const { fitted, cells, drawCells } = in_canvas;
const { signedColour } = in_colour;
const { figure } = in_figure;
const { tokenStrip } = in_tokens;

const ROW = 14,
  LEFT = 84;
const ROUNDED =
  " To keep the file small, these numbers are rounded to 0.4 % of their row's largest, and printed with the figures that leaves.";

function inputs(page) {
  return Object.keys(page.payload.sequences)
    .filter((name) => !page.payload.sequences[name].grid)
    .map((name) => {
      const { label, tokens } = page.payload.sequences[name];
      return el(
        "div",
        { class: "sequence" },
        el("h3", {}, label, el("small", {}, `${tokens.length} tokens`)),
        tokenStrip(page, name).node,
      );
    });
}

/** Tensors (T, D), one at a time, as rows of coloured cells with tokens beside them. */
function strips(page, { title, note, tensors, sequence, name }) {
  const names = page.namesOf(sequence, Infinity);
  let chosen = 0,
    dimension = 0;
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const tabs = tensors.map(({ label }, n) =>
    el(
      "button",
      {
        type: "button",
        class: "tab",
        "aria-pressed": String(!n),
        onclick: () => {
          chosen = n;
          draw();
        },
      },
      label,
    ),
  );
  const group = el("div", { class: "tabs", role: "group", "aria-label": title }, tensors.length > 1 ? tabs : []),
    settle = roving(group);
  const place = (rows) => Math.min(page.state.get(`at.${sequence}`), rows - 1);
  const number = ({ tensor }, t, d) => {
    const opened = tensor(),
      [T, D] = opened.shape;
    return t < T && d < D ? decimals(opened.data[t * D + d], doubt(opened, t)) : "";
  };
  const made = figure({
    title,
    note: note + (tensors[0].tensor().steps ? ROUNDED : ""),
    name,
    rows: () => {
      const [T, D] = tensors[0].tensor().shape,
        at = place(T);
      return table(
        names[at],
        ["dimension", ...tensors.map(({ label }) => label)],
        Array.from({ length: D }, (_, d) => [String(d + 1), ...tensors.map((each) => number(each, at, d))]),
      );
    },
  });
  made.stage.append(group, el("div", { class: "wide" }, canvas));
  function draw() {
    const {
      shape: [T, D],
      data,
    } = tensors[chosen].tensor();
    const width = Math.max(200, made.stage.clientWidth || 600),
      row = Math.min(ROW, 560 / T);
    const context = fitted(canvas, width, T * row),
      style = getComputedStyle(canvas);
    let most = 0;
    for (const value of data) most = Math.max(most, Math.abs(value));
    drawCells(
      context,
      cells(D, T, (x, y) => signedColour(data[y * D + x], most)),
      LEFT,
      0,
      width - LEFT,
      T * row,
    );
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const at = page.state.get(`at.${sequence}`);
    for (const t of ticks(T, Math.ceil(13 / row), at)) {
      context.fillStyle = style.getPropertyValue(t === at ? "--accent" : "--ink-2");
      context.fillText(shortened(names[t] ?? "", 11), LEFT - 8, (t + 0.5) * row);
    }
    tabs.forEach((tab, n) => tab.setAttribute("aria-pressed", String(n === chosen)));
    settle();
    canvas.setAttribute(
      "aria-label",
      `${tensors[chosen].label}: ${T} tokens by ${D} dimensions, from ${figures(-most)} to ${figures(most)}. Arrow keys choose a token and a dimension; the table holds one token's numbers.`,
    );
    made.refresh();
  }
  function cellAt(event) {
    const {
        shape: [T, D],
      } = tensors[chosen].tensor(),
      box = canvas.getBoundingClientRect();
    if (event.clientX === undefined) return { t: place(T), d: Math.min(dimension, D - 1) };
    const t = Math.floor(((event.clientY - box.top) / box.height) * T),
      d = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT)) * D);
    return t >= 0 && t < T && d >= 0 && d < D ? { t, d } : null;
  }
  const lines = (cell) =>
    cell && [
      `${names[cell.t] ?? ""}, dimension ${cell.d + 1}`,
      ...tensors.map((each) => `${each.label} ${number(each, cell.t, cell.d)}`),
    ];
  tip(canvas, (event) => lines(cellAt(event)));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) page.choose(sequence, cell.t);
  });
  canvas.addEventListener("keydown", (event) => {
    const [T, D] = tensors[chosen].tensor().shape,
      move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const within = (value, count) => Math.max(0, Math.min(count - 1, value));
    dimension = within(dimension + move[1], D);
    page.choose(sequence, within(place(T) + move[0], T));
    const box = canvas.getBoundingClientRect(),
      t = place(T);
    tipAt(
      box.left + LEFT + ((dimension + 0.5) / D) * (box.width - LEFT),
      box.top + (t / T) * box.height,
      lines({ t, d: dimension }),
    );
  });
  page.watch([`at.${sequence}`], draw, made.root);
  return made.root;
}

function embeddings(page) {
  return page.payload.stacks
    .filter((stack) => stack.input.length)
    .map((stack) =>
      strips(page, {
        title: `${stack.label}: what goes in`,
        name: `${stack.label}-input`.toLowerCase(),
        sequence: stack.sequence,
        note: `A row a token, a column a dimension. ${stack.positions}`,
        tensors: stack.input.map(({ label, tensor }) => ({ label, tensor: () => page.open(tensor) })),
      }),
    );
}
return { inputs, strips, embeddings };
})();

const in_matrix = (() => {
// One head's weights as a matrix to pan and zoom: queries down, keys across. Rows are computed as they come into sight.

const { el, shortened } = in_dom;
const { tip, hideTip } = in_tips;
const { figures } = in_numbers;
const { fitted, drawCells } = in_canvas;
const { sharePixels } = in_colour;
const { ticks } = in_layout;

const LARGEST = 64; // pixels of a cell's side
const TALLEST = 760; // pixels of the whole matrix, before it is zoomed
const FINGER = 24; // pixels of a cell's side, at least, on a screen that is touched
const LETTERS = 11,
  LONG = 19; // of a token's name across and down
const BUDGET = 14; // milliseconds of computing before the page has its turn

const rooms = new WeakMap(); // the longest of each list of tokens

/** {node, draw}: a canvas for the attention `source()` gives as {attention, head, queries, keys, i, j}. */
function matrix(source, { pick, label }) {
  const canvas = el("canvas", { tabindex: 0, role: "img", class: "matrix" });
  let rows = new Map(),
    shown = null,
    view = d3.zoomIdentity,
    waiting = 0;

  function geometry() {
    const { attention, queries, keys } = source(),
      width = canvas.parentElement ? canvas.parentElement.clientWidth : 640;
    const LABELS = roomFor(queries, LONG),
      TOP = roomFor(keys, LETTERS);
    const T = attention.T,
      S = attention.S,
      wide = Math.max(120, width - LABELS);
    const cell = Math.min(LARGEST, wide / S, TALLEST / T),
      across = S * cell,
      down = T * cell;
    return { T, S, cell, LABELS, TOP, width: LABELS + across, height: TOP + down, across, down };
  }

  /** On a screen that is touched, start with cells that a finger can hit; the rest is a drag away. */
  function fingerSized() {
    const g = geometry();
    if (!matchMedia("(pointer: coarse)").matches || g.cell >= FINGER) return;
    const { i, j } = source(),
      k = FINGER / g.cell,
      at = (n, size) => Math.max(0, Math.min(size * (k - 1), (n + 0.5) * FINGER - size / 2));
    const x = -at(Math.max(j, 0), g.across) - g.LABELS * (k - 1),
      y = -at(i, g.down) - g.TOP * (k - 1);
    zoomed.call(zooming.transform, d3.zoomIdentity.translate(x, y).scale(k));
  }

  function rowOf(i) {
    const { attention, head } = source();
    if (!rows.has(i)) rows.set(i, attention.weights(head, i));
    return rows.get(i);
  }

  /** Where the first cell's corner lies from the corner of the room, which d3 measures from the canvas's. */
  function corner(g) {
    return { x: view.x + g.LABELS * (view.k - 1), y: view.y + g.TOP * (view.k - 1) };
  }

  /** The cells in sight, one pixel each; where a pixel stands for many, the largest of every so many counts. */
  function region(g, size) {
    const { x, y } = corner(g),
      left = Math.max(0, Math.floor(-x / size)),
      above = Math.max(0, Math.floor(-y / size));
    const right = Math.min(g.S, Math.ceil((g.across - x) / size)),
      below = Math.min(g.T, Math.ceil((g.down - y) / size));
    const step = Math.max(1, Math.floor(1 / size));
    return {
      left,
      above,
      columns: Math.max(1, Math.ceil((right - left) / step)),
      rows: Math.max(1, Math.ceil((below - above) / step)),
      step,
    };
  }

  function draw() {
    const told = source(),
      key = `${told.attention.entry.name} ${told.head}`;
    if (key !== shown) {
      rows = new Map();
      shown = key;
    }
    const g = geometry(),
      context = fitted(canvas, g.width, g.height),
      size = g.cell * view.k,
      part = region(g, size);
    const until = performance.now() + BUDGET;
    let missing = false;
    const seen = Array.from({ length: part.rows }, (_, n) => {
      const i = part.above + n * part.step;
      if (!rows.has(i) && performance.now() > until) {
        missing = true;
        return null;
      }
      return rowOf(i);
    });
    const image = painted(seen, part, g.S);
    const { LABELS, TOP } = g,
      { x, y } = corner(g);
    Object.assign(canvas.dataset, { left: LABELS, top: TOP, cell: size });
    context.save();
    context.beginPath();
    context.rect(LABELS, TOP, g.across, g.down);
    context.clip();
    drawCells(
      context,
      image,
      LABELS + x + part.left * size,
      TOP + y + part.above * size,
      part.columns * part.step * size,
      part.rows * part.step * size,
    );
    mark(context, told, size, g);
    context.restore();
    labels(context, told, g, size);
    canvas.setAttribute(
      "aria-label",
      `${label()} The table below holds the numbers. Arrow keys choose a query and a key, plus and minus zoom.`,
    );
    cancelAnimationFrame(waiting);
    if (missing) waiting = requestAnimationFrame(draw);
  }

  function mark(context, { i, j, attention }, size, g) {
    const style = getComputedStyle(canvas),
      { LABELS, TOP } = g,
      { x, y } = corner(g);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(LABELS + x, TOP + y + i * size, attention.S * size, size);
    if (j >= 0) context.strokeRect(LABELS + x + j * size, TOP + y + i * size, size, size);
  }

  function labels(context, { queries, keys, i, j }, g, size) {
    const style = getComputedStyle(canvas),
      every = Math.max(1, Math.ceil(13 / size)),
      { LABELS, TOP } = g,
      first = corner(g);
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    const ink = (chosen) => {
      context.fillStyle = style.getPropertyValue(chosen ? "--accent" : "--ink-2");
    };
    context.textAlign = "right";
    for (const n of ticks(g.T, every, i)) {
      const y = TOP + first.y + (n + 0.5) * size;
      if (y < TOP || y > TOP + g.down) continue;
      ink(n === i);
      context.fillText(shortened(queries[n], LONG), LABELS - 8, y);
    }
    context.textAlign = "left";
    for (const n of ticks(g.S, every, j)) {
      const x = LABELS + first.x + (n + 0.5) * size;
      if (x < LABELS || x > LABELS + g.across) continue;
      ink(n === j);
      context.save();
      context.translate(x, TOP - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(shortened(keys[n], LETTERS), 0, 0);
      context.restore();
    }
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect(),
      g = geometry(),
      size = g.cell * view.k;
    const x = event.clientX - box.left - g.LABELS,
      y = event.clientY - box.top - g.TOP,
      first = corner(g);
    const j = Math.floor((x - first.x) / size),
      i = Math.floor((y - first.y) / size);
    return x < 0 || y < 0 || i < 0 || j < 0 || i >= g.T || j >= g.S ? null : { i, j };
  }

  tip(canvas, (event) => {
    const cell = event.clientX === undefined ? null : cellAt(event);
    if (!cell) return null;
    const { attention, head, queries, keys } = source(),
      weight = rowOf(cell.i)[cell.j];
    return [
      `${queries[cell.i]} → ${keys[cell.j]}`,
      `weight ${figures(weight, 4, attention.weightDoubt(head, cell.i, weight))}`,
      `query ${cell.i + 1}, key ${cell.j + 1}`,
    ];
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) pick(cell.i, cell.j);
  });
  canvas.addEventListener("keydown", (event) => {
    const { i, j, attention } = source(),
      move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      event.preventDefault();
      pick(
        Math.max(0, Math.min(attention.T - 1, i + move[0])),
        Math.max(0, Math.min(attention.S - 1, Math.max(j, 0) + move[1])),
      );
    } else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") reset();
  });

  const zooming = d3
    .zoom()
    .scaleExtent([1, 64])
    .filter((event) =>
      event.type === "wheel"
        ? event.ctrlKey || event.metaKey || view.k > 1
        : event.type === "touchstart"
          ? event.touches.length > 1 || view.k > 1
          : !event.button,
    )
    .extent(() => {
      const g = geometry();
      return [
        [g.LABELS, g.TOP],
        [g.width, g.height],
      ];
    })
    .translateExtent([
      [0, 0],
      [1, 1],
    ])
    .on("zoom", (event) => {
      view = event.transform;
      canvas.style.touchAction = view.k > 1 ? "none" : ""; // a finger pans the matrix, or else the page
      hideTip();
      draw();
    });
  const zoomed = d3.select(canvas).call(zooming).on("dblclick.zoom", null);
  function bounds() {
    const g = geometry();
    zooming.translateExtent([
      [g.LABELS, g.TOP],
      [g.width, g.height],
    ]);
  }
  function zoomBy(factor) {
    bounds();
    zoomed.call(zooming.scaleBy, factor);
  }
  function reset() {
    zoomed.call(zooming.transform, d3.zoomIdentity);
  }

  const tools = [
    ["−", "Zoom out", () => zoomBy(1 / 1.5)],
    ["+", "Zoom in", () => zoomBy(1.5)],
    ["fit", "Show all", reset],
  ].map(([text, name, act]) =>
    el("button", { type: "button", class: "quiet", "aria-label": name, onclick: act }, text),
  );
  let first = true;
  return {
    node: canvas,
    tools,
    draw: () => {
      bounds();
      if (first) fingerSized();
      first = false;
      draw();
    },
  };
}

/** Pixels for the longest of some tokens. */
function roomFor(tokens, most) {
  if (!rooms.has(tokens))
    rooms.set(
      tokens,
      tokens.reduce((long, name) => Math.max(long, name.length), 2),
    );
  return 20 + 7.2 * Math.min(most, rooms.get(tokens));
}

/** Rows of weights as an image, a pixel a cell or the largest of a few; rows that are not computed yet stay empty. */
function painted(seen, { left, columns, rows, step }, S) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"),
    image = context.createImageData(columns, rows),
    pixels = new Uint32Array(image.data.buffer),
    ramp = sharePixels();
  seen.forEach((row, y) => {
    const line = y * columns;
    if (!row) {
      pixels.fill(ramp[0], line, line + columns);
      return;
    }
    for (let x = 0, j = left; x < columns; x++, j += step) {
      let most = row[j];
      for (let n = 1; n < step && j + n < S; n++) if (row[j + n] > most) most = row[j + n];
      pixels[line + x] = ramp[(255 * Math.sqrt(most) + 0.5) | 0];
    }
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
return { matrix };
})();

const in_rivals = (() => {
// Which heads look from the chosen query at the chosen key, and how much: all of those that could.

const { el, svg, swap, table } = in_dom;
const { choices } = in_keyboard;
const { tip } = in_tips;
const { percent, figures } = in_numbers;
const { figure } = in_figure;

const SHOWN = 8;

function rivals(page) {
  const printed = ({ index, head, weight }, i) =>
    figures(weight, 5, page.attentions[index].weightDoubt(head, i, weight));
  const found = () => {
    const { attention, i, j, queries, keys } = page.look();
    const list = page.attentions.flatMap((each, index) =>
      each.entry.queries === attention.entry.queries &&
      each.entry.keys === attention.entry.keys &&
      each.entry.kind === attention.entry.kind
        ? Array.from({ length: each.heads }, (_, head) => ({
            index,
            head,
            name: `${each.entry.unit} ${each.entry.layer + 1}, head ${head + 1}`,
            weight: each.weights(head, i)[j],
          }))
        : [],
    );
    return { list: list.sort((a, b) => b.weight - a.weight), from: queries[i], to: keys[j], i };
  };
  const made = figure({
    title: "Which heads look there",
    name: "heads-that-look-there",
    rows: () => {
      const { list, from, to, i } = found();
      return table(
        `From ${from} to ${to}`,
        ["head", "weight"],
        list.map((each) => [each.name, printed(each, i)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const { list, from, to, i } = found(),
      shown = list.slice(0, SHOWN),
      width = Math.max(300, holder.clientWidth || 640),
      left = 128,
      row = 26,
      height = shown.length * row + 4,
      bar = Math.max(30, width - left - 70);
    made.root.hidden = list.length < 2; // a model of one head has no others
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const items = shown.map((each, n) => {
      const { index, head, name, weight } = each;
      const y = n * row,
        chosen = page.state.get("attention") === index && page.state.get("head") === head;
      const line = svg(
        "g",
        { class: chosen ? "line chosen" : "line" },
        svg("rect", { class: "ground", x: 0, y, width, height: row - 2, rx: 4 }),
        svg(
          "text",
          { class: "piece", x: left - 12, y: y + row / 2 - 1, "text-anchor": "end", "dominant-baseline": "middle" },
          name,
        ),
        svg("rect", {
          x: left,
          y: y + 5,
          width: Math.max(1, weight * bar),
          height: row - 12,
          rx: 3,
          class: "bar",
        }),
        svg(
          "text",
          { class: "number", x: left + weight * bar + 8, y: y + row / 2 - 1, "dominant-baseline": "middle" },
          percent(weight),
        ),
      );
      line.addEventListener("click", () => page.state.set({ attention: index, head, key: page.look().j }));
      line.setAttribute("tabindex", -1);
      root.append(tip(line, () => [name, `weight ${printed(each, i)}`]));
      return { node: line, name: `${name}: ${percent(weight)}`, key: `${index} ${head}`, chosen };
    });
    choices(root, items, { label: `Heads by how much ${from} looks at ${to}` });
    sentence.textContent = `From ${from} to ${to}: of the ${list.length} heads of ${page.attention.entry.label.toLowerCase()} ${page.attention.entry.kind === "cross" ? "cross-attention" : "self-attention"}, those that look there most.`;
    swap(holder, root);
    made.refresh();
  }, made.root);
  return made.root;
}
return { rivals };
})();

const in_story = (() => {
// One query of one head, step by step: products, scale, position, mask, softmax, weighted values.

const { el, svg, shortened, swap, table } = in_dom;
const { choices } = in_keyboard;
const { tip } = in_tips;
const { figures, percent } = in_numbers;
const { signedColour } = in_colour;
const { figure } = in_figure;

const MOST = 10,
  ROW = 26;

/** The keys to tell of: those with most weight, and the chosen one, in their order. */
function told(keys, chosen) {
  const best = [...keys]
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MOST)
    .map((key) => key.j);
  return keys.filter(({ j }) => best.includes(j) || j === chosen);
}

function ladder(page) {
  const made = figure({
    title: "From products to weights",
    name: "scores",
    note: "What the chosen query makes of each key, from left to right. Choose a key to see its product dimension by dimension.",
    rows: () => {
      const { story, keys } = page.look();
      return table(
        "Every key",
        ["key", "q·k", "times scale", "position", "allowed", "score", "weight"],
        story.keys.map((key) => [
          keys[key.j],
          figures(key.dot, 4, key.doubts.dot),
          figures(key.scaled, 4, key.doubts.scaled),
          key.position,
          key.allowed ? "yes" : "no",
          key.allowed ? figures(key.score, 4, key.doubts.score) : "−∞",
          figures(key.weight, 4, key.doubts.weight),
        ]),
      );
    },
  });
  const facts = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(facts, holder);
  page.onLook(() => {
    const { story, keys, queries, who, i, j, attention } = page.look(),
      rows = told(story.keys, j),
      entry = attention.entry;
    const position = entry.position && entry.position.kind !== "rotary";
    const width = Math.max(300, holder.clientWidth || 640),
      narrow = width < 520,
      left = narrow ? 84 : 100;
    const steps = [
        ["dot", entry.energy ? "w·tanh(q+k)" : "q·k"],
        ...(narrow ? [] : [["scaled", `× ${figures(story.scale)}`]]),
        ...(position ? [["position", `+ ${entry.position.kind}`]] : []),
        ...(narrow && position ? [] : [["score", "score"]]),
        ["weight", "weight"],
      ],
      column = (width - left) / steps.length,
      bar = Math.max(6, column - (narrow ? 66 : 78));
    const most = Object.fromEntries(
      steps.map(([name]) => [
        name,
        Math.max(
          1e-9,
          ...rows.filter((key) => key.allowed || name === "dot" || name === "scaled").map((key) => Math.abs(key[name])),
        ),
      ]),
    );
    const height = 34 + rows.length * ROW + (rows.length < story.keys.length ? 26 : 2);
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    steps.forEach(([, title], n) =>
      root.append(svg("text", { class: "axis", x: left + n * column + 4, y: 18 }, title)),
    );
    const items = rows.map((key, n) => {
      const y = 34 + n * ROW,
        line = svg("g", { class: key.j === j ? "line chosen" : "line", tabindex: -1 });
      line.append(svg("rect", { class: "ground", x: 0, y, width, height: ROW - 2, rx: 4 }));
      line.append(
        svg(
          "text",
          { class: "piece", x: left - 12, y: y + ROW / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          shortened(keys[key.j], 12),
        ),
      );
      steps.forEach(([name], m) => line.append(step(name, key, left + m * column, y, bar, most[name])));
      line.addEventListener("click", () => page.state.set({ key: key.j }));
      tip(line, () =>
        [
          `${who}, looking at ${keys[key.j]}`,
          `q·k ${figures(key.dot, 5, key.doubts.dot)}`,
          `× ${figures(story.scale, 4)} = ${figures(key.scaled, 5, key.doubts.scaled)}`,
          position ? `position ${figures(key.position, 5)}` : "",
          key.allowed ? `score ${figures(key.score, 5, key.doubts.score)}` : "not allowed by the mask",
          `weight ${figures(key.weight, 5, key.doubts.weight)}`,
        ].filter(Boolean),
      );
      root.append(line);
      return { node: line, name: `${keys[key.j]}: ${percent(key.weight)}`, key: String(key.j), chosen: key.j === j };
    });
    choices(root, items, { label: `The keys that ${queries[i]} looks at most, with their weights` });
    const rest = story.keys.length - rows.length,
      left_over = 1 - rows.reduce((sum, key) => sum + key.weight, 0);
    if (rest > 0)
      root.append(
        svg(
          "text",
          { class: "axis", x: left, y: height - 8 },
          `${rest} more keys share ${percent(Math.max(0, left_over))}`,
        ),
      );
    facts.textContent = `A token may look at ${entry.mask_words}.`;
    swap(holder, root);
    made.refresh();
  }, made.root);
  return made.root;
}

function step(name, key, x, y, bar, most) {
  const group = svg("g"),
    middle = y + (ROW - 2) / 2,
    off = name !== "dot" && name !== "scaled" && !key.allowed;
  const value = key[name],
    long = off ? 0 : Math.max(1, (Math.abs(value) / most) * bar);
  if (!off)
    group.append(
      svg("rect", { class: value < 0 ? "minus" : "plus", x: x + 4, y: middle - 6, width: long, height: 12, rx: 2 }),
    );
  group.append(
    svg(
      "text",
      { class: "number", x: x + 10 + long, y: middle, "dominant-baseline": "middle" },
      off && name === "score"
        ? "masked"
        : name === "weight"
          ? percent(value, key.doubts.weight)
          : figures(value, 3, key.doubts[name]),
    ),
  );
  return group;
}

/** q·k of the chosen pair, dimension by dimension. */
function products(page) {
  const made = figure({
    title: "One product, dimension by dimension",
    name: "product",
    rows: () => {
      const { E, printed } = pair(page);
      return table(
        "The chosen query and key",
        ["dimension", "q", "k", "product"],
        Array.from({ length: E }, (_, e) => [String(e + 1), ...printed(e)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const { parts, E, total, names, entry, printed } = pair(page),
      width = Math.max(300, holder.clientWidth || 640),
      left = 58;
    const wide = (width - left - 8) / E,
      rows = [
        ["q", parts.q],
        ["k", parts.k],
      ];
    const largest = Math.max(1e-9, ...parts.product.map(Math.abs)),
      height = 128 + 56 * Math.max(0, -Math.min(...parts.product) / largest);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `q and k. ${names}: the products add up to ${total}`,
    });
    const sizes = Math.max(...parts.q.map(Math.abs), ...parts.k.map(Math.abs));
    rows.forEach(([name, values], n) => {
      root.append(svg("text", { class: "axis", x: left - 12, y: 16 + n * 24, "text-anchor": "end" }, name));
      values.forEach((value, e) =>
        root.append(
          svg("rect", {
            x: left + e * wide,
            y: 4 + n * 24,
            width: Math.max(wide - 0.5, 0.5),
            height: 18,
            fill: signedColour(value, sizes).formatHex(),
          }),
        ),
      );
    });
    root.append(
      svg("text", { class: "axis", x: left - 12, y: 124, "text-anchor": "end" }, entry.energy ? "w·tanh" : "q × k"),
    );
    root.append(svg("line", { class: "zero", x1: left, x2: width - 8, y1: 120, y2: 120 }));
    parts.product.forEach((value, e) => {
      const long = (Math.abs(value) / largest) * 56,
        bar = svg("rect", {
          class: value < 0 ? "minus" : "plus",
          x: left + e * wide,
          y: value < 0 ? 120 : 120 - long,
          width: Math.max(wide - 1, 0.5),
          height: Math.max(long, 0.5),
        });
      root.append(
        tip(bar, () => {
          const [q, k, product] = printed(e);
          return [`dimension ${e + 1}`, `q ${q}`, `k ${k}`, `adds ${product}`];
        }),
      );
    });
    sentence.textContent = `${names}: the products add up to ${total}.`;
    holder.replaceChildren(root);
    made.refresh();
  }, made.root);
  return made.root;
}

function pair(page) {
  const { attention, head, i, j, who, keys, story } = page.look(),
    key = Math.max(j, 0),
    vectors = attention.vectors(head, i, key),
    { doubts } = vectors;
  const energy = page.open(attention.entry.energy),
    q = [...vectors.q],
    k = [...vectors.k];
  const product = q.map((value, e) => (energy ? energy.data[e] * Math.tanh(value + k[e]) : value * k[e]));
  const printed = (e) => {
    const weight = energy ? Math.abs(energy.data[e]) : 0,
      error = energy ? weight * (doubts.q + doubts.k) : Math.abs(k[e]) * doubts.q + Math.abs(q[e]) * doubts.k;
    return [figures(q[e], 5, doubts.q), figures(k[e], 5, doubts.k), figures(product[e], 5, error)];
  };
  return {
    parts: { q, k, product },
    E: q.length,
    total: figures(story.keys[key].dot, 5, story.keys[key].doubts.dot),
    names: `${who}, looking at ${keys[key]}`,
    entry: attention.entry,
    printed,
  };
}

/** The values, weighted and added up. */
function values(page) {
  const made = figure({
    title: "Weighted values, added up",
    name: "values",
    note: "Each key's value times its weight; below, their sum over all keys: what this head passes on. Where the file keeps PyTorch's own row, it stands below it.",
    rows: () => {
      const { story, attention, head, i } = page.look(),
        told_ = attention.reference(head, i);
      return table(
        "What the head passes on",
        ["dimension", "computed here", "PyTorch"],
        [...story.out].map((value, e) => [
          String(e + 1),
          figures(value, 4, story.outDoubt),
          told_ ? figures(told_.out[e], 4, told_.outDoubt) : "not kept",
        ]),
      );
    },
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.onLook(() => {
    const { story, attention, head, i, j, keys, queries } = page.look(),
      rows = told(story.keys, j).filter((key) => key.weight > 0),
      reference = attention.reference(head, i);
    const W = story.out.length,
      width = Math.max(300, holder.clientWidth || 640),
      left = width < 520 ? 112 : 150,
      wide = (width - left - 8) / W;
    const lines = rows.map((key) => {
      const { v, doubts } = attention.vectors(head, i, key.j);
      return {
        label: `${percent(key.weight, key.doubts.weight)} ${shortened(keys[key.j], 10)}`,
        values: Array.from(v, (value) => value * key.weight),
        doubt: key.weight * doubts.v + key.doubts.weight * Math.max(...v.map(Math.abs)),
      };
    });
    lines.push({ label: "sum", values: [...story.out], doubt: story.outDoubt, sum: true });
    if (reference) lines.push({ label: "PyTorch", values: [...reference.out], doubt: reference.outDoubt, sum: true });
    const most = Math.max(1e-9, ...lines.flatMap((line) => line.values.map(Math.abs))),
      height = lines.length * 22 + 8;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What ${queries[i]} takes from each key, and the sum`,
    });
    lines.forEach((line, n) => {
      root.append(
        svg(
          "text",
          { class: line.sum ? "piece" : "axis", x: left - 12, y: n * 22 + 15, "text-anchor": "end" },
          line.label,
        ),
      );
      line.values.forEach((value, e) =>
        root.append(
          tip(
            svg("rect", {
              x: left + e * wide,
              y: n * 22 + 2,
              width: Math.max(wide - 0.5, 0.5),
              height: 18,
              fill: signedColour(value, most).formatHex(),
            }),
            () => [line.label, `dimension ${e + 1}: ${figures(value, 5, line.doubt)}`],
          ),
        ),
      );
    });
    holder.replaceChildren(root);
    made.refresh();
  }, made.root);
  return made.root;
}
return { ladder, products, values };
})();

const in_position = (() => {
// What position does inside attention: a ramp, a table, or a dial for each pair of dimensions.

const { el, svg, table } = in_dom;
const { tip } = in_tips;
const { figures } = in_numbers;
const { turned } = in_attention;
const { figure } = in_figure;

/** What distance does in this attention: a ramp, a table, or a dial for each pair of dimensions. */
function positions(page) {
  const made = figure({
    title: "Where they stand",
    name: "position",
    rows: () => {
      const { attention, head, i, keys } = page.look();
      return table(
        "What position adds to the score",
        ["key", "distance", "term"],
        Array.from({ length: attention.S }, (_, j) => [keys[j], String(j - i), attention.position(head, i, j)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const look = page.look(),
      kind = look.attention.entry.position && look.attention.entry.position.kind;
    made.root.hidden = !kind;
    if (!kind) return;
    const width = Math.max(320, holder.clientWidth || 640);
    holder.replaceChildren(kind === "rotary" ? dials(look, width, sentence) : ramp(look, width, sentence));
    made.refresh();
  }, made.root);
  return made.root;
}

function ramp({ attention, head, i, j, keys }, width, sentence) {
  const S = attention.S,
    height = 150,
    left = 60,
    values = Array.from({ length: S }, (_, n) => attention.position(head, i, n)).slice(
      0,
      attention.allowed(head, i, S - 1) ? S : i + 1,
    );
  const low = Math.min(...values, 0),
    high = Math.max(...values, 0),
    x = (n) => left + ((n + 0.5) / S) * (width - left - 8),
    y = (value) => 12 + ((high - value) / (high - low || 1)) * (height - 40);
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "What position adds to the score of each key",
  });
  root.append(svg("line", { class: "zero", x1: left, x2: width - 8, y1: y(0), y2: y(0) }));
  root.append(
    svg("path", {
      class: "curve",
      d: d3.line(
        (value, n) => x(n),
        (value) => y(value),
      )(values),
    }),
  );
  values.forEach((value, n) =>
    root.append(
      tip(
        svg("circle", {
          class: n === j ? "dot chosen" : "dot",
          cx: x(n),
          cy: y(value),
          r: n === j ? 5 : Math.min(3, 160 / S),
        }),
        () => [keys[n], `distance ${n - i}`, `adds ${figures(value, 5)}`],
      ),
    ),
  );
  for (const value of [high, low])
    root.append(svg("text", { class: "axis", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, figures(value)));
  root.append(svg("text", { class: "axis", x: x(i), y: height - 6, "text-anchor": "middle" }, "the query"));
  const kind = attention.entry.position.kind;
  sentence.textContent =
    kind === "alibi"
      ? `ALiBi: −${figures(attention.entry.position.slopes[head])} for each step between query and key, this head's slope.`
      : kind === "t5"
        ? "T5: a learned term for each bucket of distance, shared by all layers."
        : "Shaw: the query's product with a learned vector for each distance.";
  return root;
}

function dials({ attention, head, i, j, queries, keys }, width, sentence) {
  const key = Math.max(j, 0),
    rule = attention.entry.position,
    { q, k } = attention.vectors(head, i, key);
  const E = q.length,
    half = E / 2,
    plain = { q: turned(q, -i, rule), k: turned(k, -key, rule) };
  const size = 46,
    across = Math.max(1, Math.floor(width / size)),
    count = Math.min(half, across * 3),
    height = Math.ceil(count / across) * (size + 14);
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `How far each pair of dimensions is turned between ${queries[i]} and ${keys[key]}`,
  });
  for (let p = 0; p < count; p++) {
    const [a, b] = rule.layout === "interleaved" ? [2 * p, 2 * p + 1] : [p, p + half],
      rate = rule.base ** ((-2 * p) / E),
      angle = (i - key) * rate;
    const cx = (p % across) * size + size / 2,
      cy = Math.floor(p / across) * (size + 14) + size / 2,
      r = size / 2 - 5;
    const before = plain.q[a] * plain.k[a] + plain.q[b] * plain.k[b],
      after = q[a] * k[a] + q[b] * k[b];
    const dial = svg(
      "g",
      {},
      svg("circle", { class: "dial", cx, cy, r }),
      svg("line", { class: "hand still", x1: cx, y1: cy, x2: cx + r, y2: cy }),
      svg("line", { class: "hand", x1: cx, y1: cy, x2: cx + r * Math.cos(angle), y2: cy - r * Math.sin(angle) }),
      svg("text", { class: "tiny", x: cx, y: cy + r + 12, "text-anchor": "middle" }, figures(after, 2)),
    );
    root.append(
      tip(dial, () => [
        `pair ${p + 1}: dimensions ${a + 1} and ${b + 1}`,
        `${figures(rate)} radians a step`,
        `turned by ${figures(angle)} (${figures(((angle % (2 * Math.PI)) * 180) / Math.PI)}°)`,
        `product before turning ${figures(before, 4)}`,
        `after ${figures(after, 4)}`,
      ]),
    );
  }
  sentence.textContent = `Rotary: between ${queries[i]} and ${keys[key]} lie ${i - key} steps; each pair of dimensions is turned by its own angle. Below each dial, what the pair adds to q·k${count < half ? ` (the first ${count} of ${half} pairs)` : ""}.`;
  return root;
}
return { positions };
})();

const in_blocks = (() => {
// The stream through the blocks: what a token's vector is after each, and how much each part added.

const { el, svg, visible, swap, table } = in_dom;
const { choices } = in_keyboard;
const { tip } = in_tips;
const { figures } = in_numbers;
const { figure } = in_figure;
const { strips } = in_input;

function blocks(page) {
  return page.payload.stacks.flatMap((stack) => [
    stack.depth ? depth(page, stack) : null,
    Object.keys(stack.layers[0].added).length ? added(page, stack) : null,
    streams(page, stack),
  ]);
}

function streams(page, stack) {
  const tensors = stack.layers
    .map(({ left }, n) => left && { label: `after block ${n + 1}`, tensor: () => page.open(left) })
    .filter(Boolean);
  if (stack.out) tensors.push({ label: "after the last norm", tensor: () => page.open(stack.out) });
  const missing = stack.layers.filter(({ left }) => !left).length,
    left_out = missing
      ? ` To keep the file small, the stream after ${missing} of ${stack.layers.length} blocks is left out.`
      : "";
  if (!tensors.length) return el("p", { class: "omission" }, `${stack.label}: the stream.${left_out}`);
  return strips(page, {
    title: `${stack.label}: the stream`,
    name: `${stack.label}-stream`.toLowerCase(),
    sequence: stack.sequence,
    tensors,
    note: `Every token's vector as each block leaves it: blue above zero, orange below.${left_out}`,
  });
}

/** How many steps a loop thought about each token, and what that cost in training. */
function depth(page, stack) {
  const { tokens } = page.payload.sequences[stack.sequence],
    steps = page.open(stack.depth.steps).data,
    cost = page.open(stack.depth.cost).data;
  const made = figure({
    title: `${stack.label}: how long each token was thought about`,
    name: `${stack.label}-depth`.toLowerCase(),
    note: "One block, applied again and again: a column a token, its height the number of steps it took before it halted.",
    rows: () =>
      table(
        "Steps",
        ["token", "steps", "ponder cost"],
        tokens.map((piece, n) => [visible(piece), String(steps[n]), cost[n]]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.watch([`at.${stack.sequence}`], () => {
    const T = tokens.length,
      left = 40,
      column = Math.max(24, Math.min(44, ((holder.clientWidth || 640) - left) / T)),
      width = left + T * column,
      base = 130,
      height = 200,
      most = Math.max(1, ...steps);
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    root.append(
      svg("text", { class: "axis", x: left - 10, y: 16, "text-anchor": "end" }, String(most)),
      svg("line", { class: "zero", x1: left, x2: width, y1: base, y2: base }),
    );
    const items = tokens.map((piece, n) => {
      const chosen = page.state.get(`at.${stack.sequence}`) === n,
        tall = (steps[n] / most) * (base - 12);
      const bar = svg(
        "g",
        { class: "cell", tabindex: -1 },
        svg("rect", {
          class: chosen ? "dot chosen" : "plus",
          x: left + n * column + 2,
          y: base - tall,
          width: column - 4,
          height: tall,
          rx: 2,
        }),
        svg(
          "text",
          {
            class: chosen ? "piece chosen" : "axis",
            transform: `translate(${left + (n + 0.5) * column + 4},${base + 10}) rotate(90)`,
          },
          visible(piece).slice(0, 9),
        ),
      );
      bar.addEventListener("click", () => page.choose(stack.sequence, n));
      root.append(tip(bar, () => [visible(piece), `${steps[n]} steps`, `ponder cost ${figures(cost[n], 4)}`]));
      return { node: bar, name: `${visible(piece)}: ${steps[n]} steps`, key: String(n), chosen };
    });
    choices(root, items, { label: `Steps each token took, ${most} at most` });
    swap(holder, root);
    made.refresh();
  });
  return made.root;
}

/** How long the vectors are that each part of each block adds to the chosen token. */
function added(page, stack) {
  const tokens = page.payload.sequences[stack.sequence].tokens,
    parts = Object.keys(stack.layers[0]?.added || {});
  const at = () => Math.min(page.state.get(`at.${stack.sequence}`), tokens.length - 1);
  const made = figure({
    title: `${stack.label}: what each block adds`,
    name: `${stack.label}-added`.toLowerCase(),
    note: "The length of the vector that attention and the position-wise network give for the chosen token, block by block.",
    rows: () =>
      table(
        `What is added for ${visible(tokens[at()])}`,
        ["block", ...parts],
        stack.layers.map((layer, n) => [
          String(n + 1),
          ...parts.map((part) => page.open(layer.added[part]).data[at()]),
        ]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const L = stack.layers.length,
      width = Math.max(320, holder.clientWidth || 640),
      left = 44,
      height = 164,
      base = height - 24;
    const lengths = stack.layers.map((layer) => parts.map((part) => page.open(layer.added[part]).data[at()])),
      most = Math.max(1e-9, ...lengths.flat());
    const unit = 10 ** Math.floor(Math.log10(most)),
      step = most / unit > 5 ? 2 * unit : most / unit > 2 ? unit : unit / 2,
      tall = (value) => (value / most) * (base - 26);
    const block = Math.min((width - left) / L, 120),
      bar = (block - 12) / parts.length;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What each block adds for ${visible(tokens[at()])}`,
    });
    root.append(
      ...Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => [
        svg("line", { class: "zero", x1: left, x2: width, y1: base - tall(n * step), y2: base - tall(n * step) }),
        svg(
          "text",
          { class: "axis", x: left - 8, y: base - tall(n * step) + 4, "text-anchor": "end" },
          String(Number((n * step).toPrecision(2))),
        ),
      ]).flat(),
    );
    lengths.forEach((row, n) => {
      row.forEach((value, m) =>
        root.append(
          tip(
            svg("rect", {
              class: `part-${m}`,
              x: left + n * block + 6 + m * bar,
              y: base - tall(value),
              width: Math.max(bar - 2, 1),
              height: tall(value),
              rx: 2,
            }),
            () => [`block ${n + 1}, ${parts[m]}`, `length ${figures(value, 5)}`],
          ),
        ),
      );
      root.append(
        svg(
          "text",
          { class: "axis", x: left + n * block + block / 2, y: base + 16, "text-anchor": "middle" },
          String(n + 1),
        ),
      );
    });
    let x = left;
    parts.forEach((part, m) => {
      root.append(
        svg("rect", { class: `part-${m}`, x, y: 2, width: 10, height: 10, rx: 2 }),
        svg("text", { class: "axis", x: x + 16, y: 11 }, part),
      );
      x += 26 + part.length * 6.4;
    });
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch([`at.${stack.sequence}`], draw, made.root);
  return made.root;
}
return { blocks };
})();

const in_output = (() => {
// The end: logits and probabilities of what the model would say.

const { el, svg, visible, shortened, table } = in_dom;
const { tip } = in_tips;
const { figures, percent } = in_numbers;
const { figure } = in_figure;

/** The likeliest tokens at a place, from logits and log Σ exp over the whole vocabulary. */
function chances(page, place) {
  const { ids, words, logits, normaliser, targets, target_logits, ranks } = page.payload.output;
  const best = page.open(logits),
    whole = page.open(normaliser).data[place],
    K = best.shape[1];
  const list = ids[place].map((id, n) => ({
    id,
    word: words[id],
    logit: best.data[place * K + n],
    share: Math.exp(best.data[place * K + n] - whole),
  }));
  const target = targets[place];
  if (target === null) return { list, target: null };
  const logit = page.open(target_logits).data[place];
  return {
    list,
    target: { id: target, word: words[target], logit, share: Math.exp(logit - whole), rank: ranks[place] },
  };
}

function output(page) {
  const told = page.payload.output,
    tokens = told.sequence ? page.payload.sequences[told.sequence].tokens : null;
  const made = figure({
    title: told.label,
    name: "probabilities",
    note: `Logits and probabilities over ${told.size.toLocaleString("en")} possibilities; the softmax is computed here.`,
    rows: () => {
      const { list, target } = chances(page, page.place());
      const rows = target && !list.some((each) => each.id === target.id) ? [...list, target] : list;
      return table(
        "The likeliest",
        ["token", "logit", "probability"],
        rows.map(({ word, logit, share }) => [visible(word), logit, percent(share)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  const draw = () => {
    const place = page.place(),
      { list, target } = chances(page, place),
      rows = target && !list.some((each) => each.id === target.id) ? [...list, target] : list;
    const width = Math.max(320, holder.clientWidth || 640),
      left = 130,
      row = 28,
      height = rows.length * row + 30,
      bar = width - left - 150;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "The likeliest, with logits and probabilities",
    });
    root.append(
      svg("text", { class: "axis", x: left, y: 16 }, "probability"),
      svg("text", { class: "axis", x: width - 8, y: 16, "text-anchor": "end" }, "logit"),
    );
    rows.forEach((each, n) => {
      const y = 26 + n * row,
        right = target && each.id === target.id;
      const line = svg(
        "g",
        {},
        svg("rect", { class: "ground", x: 0, y, width, height: row }),
        svg(
          "text",
          {
            class: right ? "piece chosen" : "piece",
            x: left - 12,
            y: y + row / 2,
            "text-anchor": "end",
            "dominant-baseline": "middle",
          },
          shortened(visible(each.word), 15),
        ),
        svg("rect", {
          x: left,
          y: y + 6,
          width: Math.max(1, each.share * bar),
          height: row - 12,
          rx: 3,
          class: "bar",
        }),
        svg(
          "text",
          { class: "number", x: left + each.share * bar + 8, y: y + row / 2, "dominant-baseline": "middle" },
          percent(each.share),
        ),
        svg(
          "text",
          { class: "number", x: width - 8, y: y + row / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          figures(each.logit, 4),
        ),
      );
      root.append(
        tip(line, () =>
          [
            visible(each.word),
            `logit ${figures(each.logit, 6)}`,
            `probability ${figures(each.share, 5)}`,
            right ? `what really came, rank ${target.rank}` : "",
          ].filter(Boolean),
        ),
      );
    });
    const where = tokens ? `After ${visible(tokens[place])}: ` : "";
    sentence.textContent = target
      ? `${where}what came was ${visible(target.word)}, with ${percent(target.share)}, rank ${target.rank}.`
      : `${where || "All in all "}the likeliest is ${visible(list[0].word)}, with ${percent(list[0].share)}.`;
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch(told.sequence ? [`at.${told.sequence}`] : ["head"], draw, made.root);
  return made.root;
}
return { chances, output };
})();

const in_near = (() => {
// The nearest tokens in the embedding table.

const { el, svg, visible, shortened, swap, table } = in_dom;
const { tip } = in_tips;
const { figures } = in_numbers;
const { figure } = in_figure;

const SPACES = {
  table: {
    title: "the embedding table",
    note: "The tokens of the vocabulary whose rows of the embedding table point most nearly the same way as the chosen token's, by the cosine between them.",
    none: "only the first tokens of a long text have neighbours here.",
  },
  sentences: {
    title: "the space of sentence vectors",
    note: "The whole words whose sentence vectors point most nearly the same way as that of the chosen token, each encoded as a sentence of one word, by the cosine between them.",
    none: "not a whole word, so it has no sentence vector of its own, and no neighbours.",
  },
};

function neighbours(page, name) {
  const { space, lists } = page.payload.near[name],
    { tokens, label } = page.payload.sequences[name];
  const at = () => Math.min(page.state.get(`at.${name}`), lists.length - 1);
  const made = figure({
    title: `${label}: neighbours in ${SPACES[space].title}`,
    name: `neighbours-${name}`,
    note: SPACES[space].note,
    rows: () => table(`Neighbours of ${visible(tokens[at()])}`, ["token", "cosine"], lists[at()]),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const list = lists[at()],
      width = Math.max(300, holder.clientWidth || 640),
      left = 130,
      row = 24,
      height = Math.max(1, list.length) * row + 26,
      bar = Math.max(40, width - left - 70);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Neighbours of ${visible(tokens[at()])}`,
    });
    root.append(
      svg(
        "text",
        { class: "piece chosen", x: left - 12, y: 14, "text-anchor": "end" },
        shortened(visible(tokens[at()]), 14),
      ),
      svg("text", { class: "axis", x: left, y: 14 }, "cosine"),
    );
    if (!list.length) {
      swap(holder, el("p", { class: "note" }, `${visible(tokens[at()])}: ${SPACES[space].none}`));
      made.refresh();
      return;
    }
    list.forEach(([word, cosine], n) => {
      const y = 22 + n * row;
      root.append(
        tip(
          svg(
            "g",
            {},
            svg("rect", { class: "ground", x: 0, y, width, height: row }),
            svg(
              "text",
              { class: "piece", x: left - 12, y: y + row / 2, "text-anchor": "end", "dominant-baseline": "middle" },
              shortened(visible(word), 14),
            ),
            svg("rect", {
              x: left,
              y: y + 5,
              width: Math.max(1, Math.max(0, cosine) * bar),
              height: row - 10,
              rx: 3,
              class: "bar",
            }),
            svg(
              "text",
              {
                class: "number",
                x: left + Math.max(0, cosine) * bar + 8,
                y: y + row / 2,
                "dominant-baseline": "middle",
              },
              figures(cosine),
            ),
          ),
          () => [visible(word), `cosine ${figures(cosine, 4)}`],
        ),
      );
    });
    swap(holder, root);
    made.refresh();
  };
  page.watch([`at.${name}`], draw, made.root);
  return made.root;
}
return { neighbours };
})();

const in_lens = (() => {
// The logit lens: what the model would say if it stopped after each block.

const { el, svg, visible, shortened, swap, table } = in_dom;
const { choices } = in_keyboard;
const { tip } = in_tips;
const { percent } = in_numbers;
const { shareColour, inkOn } = in_colour;
const { figure } = in_figure;

const CELL = 84,
  HIGH = 28,
  LEFT = 76,
  COLUMNS = 48; // of a long text, those around the chosen token

function lens(page) {
  const { lens: told } = page.payload,
    { sequence } = page.payload.output;
  const tokens = sequence ? page.payload.sequences[sequence].tokens : [""],
    shares = page.open(told.shares),
    [L, T, K] = shares.shape;
  const best = (layer, place) =>
    Array.from({ length: K }, (_, n) => ({
      word: told.words[told.ids[layer][place][n]],
      share: shares.data[(layer * T + place) * K + n],
    }));
  const made = figure({
    title: "After each block",
    name: "lens",
    note: "What the model would say if the blocks above were left out: each block's stream, read by the last norm and the output layer. Darker is surer.",
    rows: () => {
      const place = Math.min(page.place(), T - 1);
      return table(
        sequence ? `At ${visible(tokens[place])}` : "After each block",
        ["after", "likeliest", "probability", "second", "probability"],
        told.layers.map((name, layer) => {
          const [first, second] = best(layer, place);
          return [
            name,
            visible(first.word),
            percent(first.share),
            second ? visible(second.word) : "",
            second ? percent(second.share) : "",
          ];
        }),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  const draw = () => {
    const place = Math.min(page.place(), T - 1),
      count = Math.min(T, COLUMNS),
      from = Math.max(0, Math.min(place - Math.floor(count / 2), T - count)); // around the chosen place
    const width = LEFT + count * CELL + 8,
      height = 30 + L * HIGH + 6;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }),
      items = [];
    for (let n = from; n < from + count; n++) {
      const x = LEFT + (n - from) * CELL;
      root.append(
        svg(
          "text",
          { class: n === place ? "piece chosen" : "axis", x: x + CELL / 2, y: 18, "text-anchor": "middle" },
          sequence ? shortened(visible(tokens[n]), 10) : "",
        ),
      );
    }
    told.layers.forEach((name, layer) => {
      const y = 28 + layer * HIGH;
      root.append(
        svg(
          "text",
          { class: "axis", x: LEFT - 10, y: y + HIGH / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          name,
        ),
      );
      for (let n = from; n < from + count; n++) items.push(cellOf(root, layer, n, LEFT + (n - from) * CELL, y));
    });
    for (const item of items) item.chosen = item.layer === L - 1 && item.place === place;
    choices(root, items, { label: "The likeliest token at each place after each block", columns: count });
    sentence.textContent = count < T ? `Places ${from + 1} to ${from + count} of ${T}, around the chosen one.` : "";
    sentence.hidden = count === T;
    swap(holder, root);
    const left = (place - from) * CELL;
    if (left < holder.scrollLeft || left + CELL + LEFT > holder.scrollLeft + holder.clientWidth)
      holder.scrollLeft = left + LEFT + CELL / 2 - holder.clientWidth / 2;
    made.refresh();
  };
  function cellOf(root, layer, n, x, y) {
    const list = best(layer, n),
      fill = shareColour(list[0].share),
      where = sequence ? `${told.layers[layer]}, at ${visible(tokens[n])}` : told.layers[layer];
    const cell = svg(
      "g",
      { class: "cell", tabindex: -1 },
      svg("rect", { x: x + 1, y: y + 1, width: CELL - 2, height: HIGH - 2, rx: 4, fill: fill.formatHex() }),
      svg(
        "text",
        {
          x: x + CELL / 2,
          y: y + HIGH / 2,
          "text-anchor": "middle",
          "dominant-baseline": "middle",
          style: { fill: inkOn(fill) },
        },
        shortened(visible(list[0].word), 10),
      ),
    );
    cell.addEventListener("click", () => sequence && page.choose(sequence, n));
    root.append(tip(cell, () => [where, ...list.map(({ word, share }) => `${visible(word)}  ${percent(share)}`)]));
    return {
      node: cell,
      name: `${where}: ${visible(list[0].word)}, ${percent(list[0].share)}`,
      key: `${layer} ${n}`,
      layer,
      place: n,
    };
  }
  page.watch(sequence ? [`at.${sequence}`] : ["head"], draw, made.root);
  return made.root;
}
return { lens };
})();

const in_whatif = (() => {
// What happens with a head switched off: computed beforehand for this input, one head at a time.

const { el, visible, swap, table } = in_dom;
const { tip } = in_tips;
const { figures } = in_numbers;
const { roving } = in_keyboard;
const { signedColour, inkOn } = in_colour;
const { figure } = in_figure;
const { grouped, nameOf } = in_glance;

function whatIf(page) {
  const { ablation: told } = page.payload,
    { state } = page,
    change = page.open(told.changes),
    T = change.shape[1];
  const sequence = page.payload.output.sequence;
  const owner = ({ entry, ...attention }) =>
    entry.unit === "step"
      ? `${entry.label} ${entry.kind === "cross" ? "cross-attention" : "attention"}, all steps`
      : nameOf({ entry, ...attention });
  const label = ({ attention, head }) => `${owner(page.attentions[attention])}, head ${head + 1}`;
  const total = told.heads.map((_, n) =>
    Array.from(change.data.subarray(n * T, (n + 1) * T)).reduce((sum, value) => sum + value, 0),
  );
  const most = Math.max(1e-6, ...total.map(Math.abs));
  const other = (n) => told.said[n].filter((id, place) => id !== told.plain[place]).length;
  const made = figure({
    title: "With one head switched off",
    name: "heads-off",
    note: "How the log-probability of what the model said changes when a head gives nothing: orange where it was needed, blue where it was in the way. Choose a head.",
    rows: () =>
      table(
        "Heads switched off",
        ["head", "change of log-probability", "places with another likeliest token"],
        told.heads.map((each, n) => [label(each), total[n], String(other(n))]),
      ),
  });
  const settles = [],
    groups = new Map();
  for (const members of grouped(page.attentions).values()) {
    for (const { attention, index } of members) {
      const own = told.heads.flatMap((each, n) => (each.attention === index ? [n] : []));
      if (own.length) groups.set(owner(attention), own);
    }
  }
  const grid = el("div", { class: "offs", role: "group", "aria-label": "Heads to switch off" });
  for (const [name, members] of groups) {
    grid.append(
      el(
        "div",
        { class: "row" },
        el("span", { class: "layer long" }, name),
        members.map((n) => {
          const fill = () => signedColour(total[n], most);
          const button = el(
            "button",
            {
              type: "button",
              class: "off",
              "aria-label": `Switch off ${label(told.heads[n])}: ${figures(total[n])} nats`,
              onclick: () => state.set({ off: state.get("off") === String(n) ? "" : String(n) }),
            },
            total[n]
              .toFixed(2)
              .replace("-", "−")
              .replace(/^−(0\.00)$/, "$1"),
          );
          settles.push(() => {
            button.style.background = fill().formatHex();
            button.style.color = inkOn(fill());
            button.setAttribute("aria-pressed", String(state.get("off") === String(n)));
          });
          return tip(button, () => [
            label(told.heads[n]),
            `log-probability changes by ${figures(total[n], 4)} nats`,
            `${other(n)} of ${T} places say something else`,
          ]);
        }),
      ),
    );
  }
  settles.push(roving(grid));
  const result = el("div", { class: "result" });
  made.stage.append(grid, result);
  const draw = () => {
    settles.forEach((each) => each());
    const n = Number(state.get("off"));
    if (state.get("off") === "" || !told.heads[n]) {
      result.replaceChildren(el("p", { class: "note" }, "No head is switched off."));
      return;
    }
    const tokens = sequence ? page.payload.sequences[sequence].tokens : [""],
      writes = sequence && page.payload.sequences[sequence].writes;
    const at = (place) => visible(sequence ? (writes ? writes[place] : tokens[place]) : told.words[told.plain[place]]);
    const places = el("div", { class: "tokens", role: "group", "aria-label": "The change at each place" });
    swap(
      result,
      el(
        "p",
        { class: "note" },
        `Without ${label(told.heads[n])}: ${figures(total[n], 4)} nats in all. Below, at each place the change, and what would be likeliest now where that differs.`,
      ),
      places,
    );
    places.append(
      ...tokens.map((_, place) => {
        const value = change.data[n * T + place],
          fill = signedColour(value, Math.max(1e-6, ...Array.from(change.data.subarray(n * T, (n + 1) * T), Math.abs))),
          differs = told.said[n][place] !== told.plain[place];
        return tip(
          el(
            "button",
            {
              type: "button",
              class: "token still",
              "data-key": place,
              onclick: () => sequence && page.choose(sequence, place),
              style: { background: fill.formatHex(), color: inkOn(fill) },
            },
            el("bdi", {}, at(place)),
            differs ? el("em", {}, ` now ${visible(told.words[told.said[n][place]])}`) : null,
          ),
          () => [
            at(place),
            `changes by ${figures(value, 4)} nats`,
            differs ? `likeliest now: ${visible(told.words[told.said[n][place]])}` : "the likeliest token stays",
          ],
        );
      }),
    );
    roving(places, { press: false })();
    made.refresh();
  };
  state.on(["off"], draw);
  page.onTheme(draw);
  return made.root;
}
return { whatIf };
})();

const in_beam = (() => {
// The search: every candidate as a tree, and its finished hypotheses, ranked anew by another length penalty.

const { el, svg, visible, shortened, swap, table } = in_dom;
const { tip } = in_tips;
const { figures } = in_numbers;
const { shareColour } = in_colour;
const { figure } = in_figure;
const { placed } = in_layout;
const { shareLegend } = in_legend;
const { roving } = in_keyboard;

const LEVELS = 255; // steps in which a search records its attention
const BECAME = { won: "part of the best", ended: "finished", kept: "went on", pruned: "let go" };
const COLUMNS = [86, 112],
  SCORE = 74,
  ROW = 22;

function penalty(length, alpha, kind) {
  return kind === "gnmt" ? ((5 + length) / 6) ** alpha : length ** alpha;
}

/** Lines with their scores under this penalty, best first; equal ones stay in their order. */
function ranked(trace, alpha) {
  return trace.lines
    .map((line, index) => ({
      ...line,
      index,
      score: line.log_probability / penalty(line.length, alpha, trace.penalty),
    }))
    .sort((a, b) => b.score - a.score || a.index - b.index);
}

function search(page) {
  return [tree(page), looks(page)];
}

function tree(page) {
  const { trace } = page.payload,
    { state } = page,
    { y, steps } = placed(trace.nodes);
  const made = figure({
    title: "The search",
    name: "search",
    note: `A beam ${trace.beam} wide: every token it weighed, left to right; faint ones were let go. The winner is decided by log-probability over length penalty.`,
    rows: () =>
      el(
        "div",
        {},
        table(
          "Finished hypotheses",
          ["rank", "score", "log-probability", "tokens", "text"],
          ranked(trace, state.get("alpha")).map((line, n) => [
            String(n + 1),
            line.score,
            line.log_probability,
            String(line.length),
            line.text,
          ]),
        ),
        table(
          "Every candidate",
          ["step", "after", "token", "log-probability", "of the hypothesis so far", "what became of it"],
          trace.nodes.map(({ step, parent, piece, nats, total, status }) => [
            String(step + 1),
            parent === null ? "" : visible(trace.nodes[parent].piece),
            visible(piece),
            nats,
            total,
            BECAME[status],
          ]),
        ),
      ),
  });
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 3,
    step: 0.05,
    id: "alpha",
    value: state.get("alpha"),
    oninput: () => state.set({ alpha: Number(slider.value) }),
  });
  const value = el("output", { for: "alpha" }),
    back = el(
      "button",
      { type: "button", class: "quiet", onclick: () => state.set({ alpha: trace.alpha }) },
      "as decoded",
    );
  const list = el("ol", { class: "lines" }),
    holder = el("div", { class: "wide" });
  made.root.insertBefore(
    el("div", { class: "control" }, el("label", { for: "alpha" }, "Length penalty α"), slider, value, back),
    made.stage,
  );
  made.stage.append(holder, list);
  const settle = roving(list);
  const before = new Map(ranked(trace, trace.alpha).map((line, n) => [line.index, n]));
  const draw = () => {
    const alpha = state.get("alpha"),
      order = ranked(trace, alpha),
      won = new Set(order[0] ? order[0].nodes : []),
      ends = new Map(order.map((line, n) => [line.nodes[line.nodes.length - 1], n]));
    const chosen = new Set((trace.lines[state.get("line")] || { nodes: [] }).nodes);
    slider.value = alpha;
    value.textContent = figures(alpha, 3);
    const ended = Array.from({ length: steps }, (_, step) =>
        trace.nodes.some((each, n) => each.step === step && ends.has(n)),
      ),
      extra = SCORE * ended.filter(Boolean).length;
    const column = Math.max(COLUMNS[0], Math.min(COLUMNS[1], ((holder.clientWidth || 640) - 50 - extra) / steps)),
      lefts = [24];
    ended.forEach((has, step) => lefts.push(lefts[step] + column + (has ? SCORE : 0)));
    const width = Math.max(320, lefts[steps] + 26),
      height = (Math.max(0, ...y) + 1) * ROW + 20;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "The tree of the search; the table holds its candidates and finished hypotheses",
    });
    const at = (n) => ({ x: lefts[trace.nodes[n].step], y: 16 + y[n] * ROW });
    const link = d3
      .linkHorizontal()
      .x((point) => point.x)
      .y((point) => point.y);
    const edges = svg("g"),
      words = svg("g");
    trace.nodes.forEach((each, n) => {
      const to = at(n),
        wide = 7.2 * [...shortened(visible(each.piece), 9)].length;
      const from =
        each.parent === null
          ? { x: 2, y: to.y }
          : {
              x: at(each.parent).x + 7.2 * [...shortened(visible(trace.nodes[each.parent].piece), 9)].length + 8,
              y: at(each.parent).y,
            };
      const kind = won.has(n) ? "won" : chosen.has(n) ? "chosen" : each.status === "pruned" ? "pruned" : "kept";
      edges.append(svg("path", { class: `edge ${kind}`, d: link({ source: from, target: { x: to.x - 5, y: to.y } }) }));
      const word = svg(
        "g",
        { class: `word ${kind}` },
        svg("text", { x: to.x, y: to.y, "dominant-baseline": "middle" }, shortened(visible(each.piece), 9)),
      );
      if (ends.has(n))
        word.append(
          svg(
            "text",
            { class: "rank", x: to.x + wide + 8, y: to.y, "dominant-baseline": "middle" },
            `${ends.get(n) + 1}. ${figures(order[ends.get(n)].score)}`,
          ),
        );
      words.append(
        tip(word, () => [
          visible(each.piece),
          `log-probability of the token ${figures(each.nats, 4)}`,
          `of the hypothesis so far ${figures(each.total, 4)}`,
          ends.has(n) ? `score ${figures(order[ends.get(n)].score, 5)}, rank ${ends.get(n) + 1}` : BECAME[each.status],
        ]),
      );
    });
    root.append(edges, words);
    swap(holder, root);
    swap(
      list,
      ...order.slice(0, 8).map((line, n) => {
        const was = before.get(line.index),
          moved = was === n ? "" : was > n ? `▲ from ${was + 1}` : `▼ from ${was + 1}`;
        return el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              class: "line",
              "data-key": line.index,
              "aria-pressed": String(state.get("line") === line.index),
              onclick: () => state.set({ line: line.index }),
            },
            el("span", { class: "place" }, `${n + 1}.`),
            el("bdi", {}, line.text || "(nothing)"),
            el("span", { class: "score" }, figures(line.score, 4)),
            moved ? el("span", { class: "moved" }, moved) : null,
          ),
        );
      }),
    );
    settle();
    made.refresh();
  };
  page.watch(["alpha", "line"], draw);
  return made.root;
}

/** Where each token of a hypothesis looked in the source: the mean over the heads of the last layer. */
function looks(page) {
  const { trace } = page.payload,
    { state } = page,
    known = trace.looks.some(Boolean) && trace.source.length && !page.payload.image;
  if (!known) return null;
  const line = () => Math.min(state.get("line"), trace.looks.length - 1);
  const parts = () => {
    const told = trace.lines[line()],
      look = page.open(trace.looks[line()]);
    const S = trace.source.length,
      words = told.nodes.map((n) => trace.nodes[n].piece);
    const errors = words.map((_, n) => Math.max(...look.data.subarray(n * S, (n + 1) * S)) / (2 * LEVELS));
    return { words, look, S, text: told.text, errors };
  };
  const made = figure({
    title: "Which tokens it was looking at",
    name: "alignment",
    note: `For each token that was written, the source: the mean over the heads of the last layer, as the search itself saw it, rounded to 1/${LEVELS} of the row's largest. Choose another hypothesis above.`,
    rows: () => {
      const { words, look, S, errors } = parts();
      return table(
        "Weights",
        ["token written", ...trace.source.map(visible)],
        words.map((word, n) => [
          visible(word),
          ...Array.from(look.data.subarray(n * S, (n + 1) * S), (share) => figures(share, 4, errors[n])),
        ]),
      );
    },
  });
  const holder = el("div", { class: "wide" }),
    legend = el("div", { class: "wide" });
  made.stage.append(holder, legend);
  const draw = () => {
    const { words, look, S, text, errors } = parts(),
      cell = 30,
      left = 96,
      top = 78,
      width = left + S * cell + 8,
      height = top + words.length * cell + 4;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Where the tokens of ${text} looked in the source`,
    });
    trace.source.forEach((piece, j) =>
      root.append(
        svg(
          "text",
          { class: "axis", transform: `translate(${left + (j + 0.6) * cell},${top - 8}) rotate(-52)` },
          shortened(visible(piece), 11),
        ),
      ),
    );
    words.forEach((word, n) => {
      root.append(
        svg(
          "text",
          {
            class: "piece",
            x: left - 10,
            y: top + (n + 0.5) * cell,
            "text-anchor": "end",
            "dominant-baseline": "middle",
          },
          shortened(visible(word), 12),
        ),
      );
      for (let j = 0; j < S; j++) {
        const share = look.data[n * S + j];
        root.append(
          tip(
            svg("rect", {
              x: left + j * cell,
              y: top + n * cell,
              width: cell - 2,
              height: cell - 2,
              rx: 3,
              fill: shareColour(share).formatHex(),
            }),
            () => [`${visible(word)} ← ${visible(trace.source[j])}`, `weight ${figures(share, 4, errors[n])}`],
          ),
        );
      }
    });
    swap(holder, root);
    legend.replaceChildren(shareLegend());
    made.refresh();
  };
  page.watch(["line"], draw);
  return made.root;
}
return { ranked, search };
})();

const in_overlay = (() => {
// The picture on a canvas, and what is looked at laid over it.

const { svg } = in_dom;
const { percent } = in_numbers;
const { fitted, cells, drawCells } = in_canvas;

const FRAME = [
  ["#10151d", 4],
  ["#ffffff", 2],
]; // around the chosen patch, to be seen on any picture
const HUE = "#ff6a00",
  STRONGEST = 0.85; // over the patch that is looked at most

/** The legend of the hue: from nothing to the weight of the strongest patch. */
function hueLegend(most) {
  const steps = [0, 0.1, 0.25, 0.5, 1],
    wide = 56;
  return svg(
    "svg",
    {
      class: "legend",
      width: steps.length * wide,
      height: 30,
      role: "img",
      "aria-label": `The more orange, the more weight: from 0 to ${percent(most)}, growing with the root`,
    },
    steps.map((share, n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: "#808080" }),
      svg("rect", {
        x: n * wide,
        y: 2,
        width: wide,
        height: 8,
        fill: HUE,
        "fill-opacity": STRONGEST * Math.sqrt(share),
      }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, share ? percent(share * most) : "0%"),
    ]),
  );
}

/** The picture as a canvas of its own pixels, moved by (dx, dy) with nothing where it came from. */
function pixels(page, dx = 0, dy = 0) {
  const {
      shape: [H, W],
      data,
    } = page.open(page.payload.image.pixels),
    [r, g, b] = page.payload.image.outside,
    none = { r, g, b };
  return cells(W, H, (x, y) => {
    const from = ((y - dy) * W + (x - dx)) * 3;
    return y - dy < 0 || y - dy >= H || x - dx < 0 || x - dx >= W
      ? none
      : { r: data[from], g: data[from + 1], b: data[from + 2] };
  });
}

/** The same picture in grey, its contrast halved: a hue laid over it is then seen on dark and on light alike. */
function greyed(image) {
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  for (let n = 0; n < pixels.data.length; n += 4) {
    const grey = 64 + (0.299 * pixels.data[n] + 0.587 * pixels.data[n + 1] + 0.114 * pixels.data[n + 2]) / 2;
    pixels.data[n] = pixels.data[n + 1] = pixels.data[n + 2] = grey;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Draw the picture; with shares (one a patch) in grey, and the more weight a patch has, the more of the hue. */
function overlaid(canvas, page, image, side, shares, { grid = false, chosen = -1 } = {}) {
  const {
      shape: [H, W],
    } = page.open(page.payload.image.pixels),
    height = Math.round((side * H) / W),
    context = fitted(canvas, side, height);
  const {
      grid: [rows, columns],
    } = page.payload.sequences[page.payload.image.sequence],
    wide = side / columns,
    tall = height / rows;
  drawCells(context, shares ? greyed(image) : image, 0, 0, side, height);
  if (shares) {
    const most = Math.max(1e-9, ...shares);
    context.fillStyle = HUE;
    shares.forEach((share, n) => {
      context.globalAlpha = STRONGEST * Math.sqrt(share / most);
      context.fillRect((n % columns) * wide, Math.floor(n / columns) * tall, wide, tall);
    });
    context.globalAlpha = 1;
  }
  if (grid) {
    context.strokeStyle = "rgba(127,127,127,0.55)";
    context.lineWidth = 0.5;
    for (let n = 1; n < columns; n++) context.strokeRect(n * wide, -1, 0, height + 2);
    for (let n = 1; n < rows; n++) context.strokeRect(-1, n * tall, side + 2, 0);
  }
  for (const [ink, thick] of chosen >= 0 ? FRAME : []) {
    context.strokeStyle = ink;
    context.lineWidth = thick;
    context.strokeRect((chosen % columns) * wide + 2, Math.floor(chosen / columns) * tall + 2, wide - 4, tall - 4);
  }
}
return { hueLegend, pixels, overlaid };
})();

const in_picture = (() => {
// Pictures: the pixels, the patches that are tokens, and what is looked at laid over them.

const { el, visible, table } = in_dom;
const { tip } = in_tips;
const { figures, percent } = in_numbers;
const { roving } = in_keyboard;
const { pixels, overlaid, hueLegend } = in_overlay;
const { figure } = in_figure;
const { nameOf } = in_glance;

/** Of a row of weights over the sequence, those of the patches. */
function overPatches(page, weights) {
  return Array.from(weights).slice(page.payload.sequences[page.payload.image.sequence].before);
}

function pictureInput(page) {
  const { image } = page.payload,
    sequence = page.payload.sequences[image.sequence],
    [rows, columns] = sequence.grid,
    plain = pixels(page);
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const made = figure({
    title: "The picture and its patches",
    name: "picture",
    note: `${rows} × ${columns} patches, each a token. Choose one by a click or with the arrow keys.`,
    rows: () =>
      table(
        "Patches",
        ["patch", "row", "column"],
        sequence.tokens
          .map((name, n) => [
            name,
            String(Math.floor((n - sequence.before) / columns) + 1),
            String(((n - sequence.before) % columns) + 1),
          ])
          .slice(sequence.before),
      ),
  });
  const own = sequence.before
    ? el("button", { type: "button", class: "token", onclick: () => page.choose(image.sequence, 0) }, "class token")
    : null;
  made.stage.append(canvas, own ? el("div", { class: "tokens" }, own) : "");
  const chosen = () => page.state.get(`at.${image.sequence}`) - sequence.before;
  const draw = () => {
    overlaid(canvas, page, plain, Math.min(320, made.stage.clientWidth || 320), null, { grid: true, chosen: chosen() });
    canvas.setAttribute(
      "aria-label",
      `The picture in ${rows} by ${columns} patches; chosen is ${sequence.tokens[page.state.get(`at.${image.sequence}`)]}`,
    );
    if (own) own.setAttribute("aria-pressed", String(chosen() < 0));
  };
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect(),
      column = Math.floor(((event.clientX - box.left) / box.width) * columns),
      row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    page.choose(image.sequence, sequence.before + Math.max(0, Math.min(rows * columns - 1, row * columns + column)));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    page.choose(
      image.sequence,
      Math.max(0, Math.min(sequence.tokens.length - 1, page.state.get(`at.${image.sequence}`) + step)),
    );
  });
  page.watch([`at.${image.sequence}`], draw);
  return [made.root, image.shift ? shiftedCopies(page) : null];
}

/** Shifted patch tokenization: the picture and its four copies, half a patch away each. */
function shiftedCopies(page) {
  const { shift } = page.payload.image,
    names = ["as it is", "from left above", "from right above", "from left below", "from right below"];
  const moves = [
    [0, 0],
    [shift, shift],
    [-shift, shift],
    [shift, -shift],
    [-shift, -shift],
  ];
  const made = figure({
    title: "Shifted copies",
    name: "shifted-copies",
    note: `Each token reads its patch in five pictures: the image and four copies moved by ${shift} pixels, half a patch.`,
    rows: () =>
      table(
        "Copies",
        ["copy", "moved right", "moved down"],
        names.map((name, n) => [name, String(moves[n][0]), String(moves[n][1])]),
      ),
  });
  made.stage.append(
    el(
      "div",
      { class: "copies" },
      names.map((name, n) => {
        const canvas = el("canvas", { role: "img", "aria-label": `The picture ${name}` }),
          holder = el("div", {}, canvas, el("span", { class: "under" }, name));
        page.onSize(() => overlaid(canvas, page, pixels(page, ...moves[n]), 132, null, { grid: true }));
        return holder;
      }),
    ),
  );
  return made.root;
}

/** What the chosen query of the chosen head looks at, on the picture; for a classifier the rollout too. */
function pictureLook(page) {
  const { image, rollout } = page.payload,
    plain = pixels(page),
    sequence = page.payload.sequences[image.sequence];
  if (!page.attentions.some(({ entry }) => entry.keys === image.sequence)) return [];
  const canvas = el("canvas", { role: "img" }),
    sentence = el("p", { class: "note" });
  const made = figure({
    title: "On the picture",
    name: "overlay",
    rows: () =>
      table(
        "Weights of the patches",
        ["patch", "weight"],
        shown().map((share, n) => [sequence.tokens[sequence.before + n], share]),
      ),
  });
  const tabs = [
    ["one", "this head"],
    ...(page.attentions.some(({ heads }) => heads > 1) ? [["mean", "mean of this layer's heads"]] : []),
    ...(rollout ? [["rollout", "rollout through all layers"]] : []),
  ].map(([way, label]) =>
    el(
      "button",
      { type: "button", class: "tab", "data-way": way, onclick: () => page.state.set({ rollout: way }) },
      label,
    ),
  );
  const group = el("div", { class: "tabs", role: "group", "aria-label": "What is laid over the picture" }, tabs),
    settle = roving(group);
  const legend = el("div", { class: "wide" });
  made.stage.append(sentence, group, canvas, legend);
  const way = () =>
    tabs.some((tab) => tab.dataset.way === page.state.get("rollout")) ? page.state.get("rollout") : "one";
  function shown() {
    const { attention, head, i } = page.look();
    if (way() === "rollout") {
      const { shape, data } = page.open(rollout),
        row = Math.min(page.state.get(`at.${image.sequence}`), shape[0] - 1);
      return overPatches(page, data.subarray(row * shape[1], (row + 1) * shape[1]));
    }
    if (way() === "one") return overPatches(page, attention.weights(head, i));
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      page,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  }
  const draw = () => {
    const { attention, head, who, i } = page.look(),
      over = attention.entry.keys === image.sequence;
    made.root.hidden = !over;
    if (!over) return;
    const shares = shown();
    tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.way === way())));
    settle();
    overlaid(canvas, page, plain, Math.min(360, made.stage.clientWidth || 360), shares, {
      chosen: attention.entry.queries === image.sequence ? i - sequence.before : -1,
    });
    group.hidden = tabs.length < 2;
    legend.replaceChildren(hueLegend(Math.max(...shares)));
    sentence.textContent = `${who}, ${way() === "rollout" ? "attention multiplied through all layers" : way() === "mean" ? `mean over the heads of ${nameOf(attention)}` : `${nameOf(attention)}, head ${head + 1}`}: the patch with most weight has ${percent(Math.max(...shares))}.`;
    canvas.setAttribute("aria-label", sentence.textContent);
    made.refresh();
  };
  tip(canvas, (event) => {
    if (event.clientX === undefined) return null;
    const box = canvas.getBoundingClientRect(),
      [rows, columns] = sequence.grid;
    const n =
      Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)) * columns +
      Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    return [`patch ${sequence.tokens[sequence.before + n]}`, `weight ${figures(shown()[n], 4)}`];
  });
  page.onLook(draw);
  page.state.on(["rollout"], draw);
  return [made.root, ...captionWords(page, plain)];
}

/** Each token of a caption with the part of the picture it was written from. */
function captionWords(page, plain) {
  const looking = page.attentions.filter(
    ({ entry }) => entry.kind === "cross" && entry.keys === page.payload.image.sequence,
  );
  if (!looking.length) return [];
  const attention = looking[looking.length - 1],
    name = attention.entry.queries,
    { writes } = page.payload.sequences[name],
    sequence = page.payload.sequences[page.payload.image.sequence];
  const mean = (i) => {
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      page,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  };
  const made = figure({
    title: "Each token and where it looked",
    name: "words",
    note: `The mean over the heads of ${nameOf(attention)}, at the moment each token was written: the more orange, the more weight. Choose one to follow it.`,
    rows: () =>
      table(
        "The patch each token looked at most",
        ["token", "patch", "weight"],
        writes.map((word, i) => {
          const shares = mean(i),
            n = shares.indexOf(Math.max(...shares));
          return [visible(word), sequence.tokens[sequence.before + n], shares[n]];
        }),
      ),
  });
  const group = el("div", { class: "copies", role: "group", "aria-label": "Tokens of the caption" });
  const buttons = writes.map((word, i) => {
    const canvas = el("canvas", { "aria-hidden": "true" }),
      button = el(
        "button",
        { type: "button", class: "thumb", onclick: () => page.choose(name, i) },
        canvas,
        el("bdi", { class: "under" }, visible(word)),
      );
    page.onSize(() => overlaid(canvas, page, plain, 112, mean(i)));
    tip(button, () => [
      visible(word),
      `most on patch ${sequence.tokens[sequence.before + mean(i).indexOf(Math.max(...mean(i)))]}: ${percent(Math.max(...mean(i)))}`,
    ]);
    return button;
  });
  group.append(...buttons);
  made.stage.append(group);
  const settle = roving(group);
  page.state.on([`at.${name}`], () => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(page.state.get(`at.${name}`) === i)));
    settle();
  });
  return [made.root];
}
return { pictureInput, pictureLook };
})();

const in_main = (() => {
// The page, from input to output.

const { el, shortened, table } = in_dom;
const { figures } = in_numbers;
const { pause } = in_canvas;
const { Page } = in_page;
const { compared } = in_badge;
const { bar, listed, arrived, oriented } = in_navigation;
const { figure } = in_figure;
const { inputs, embeddings } = in_input;
const { glance, nameOf } = in_glance;
const { matrix } = in_matrix;
const { shareLegend } = in_legend;
const { rivals } = in_rivals;
const { ladder, products, values } = in_story;
const { positions } = in_position;
const { blocks } = in_blocks;
const { output } = in_output;
const { neighbours } = in_near;
const { lens } = in_lens;
const { whatIf } = in_whatif;
const { search } = in_beam;
const { pictureInput, pictureLook } = in_picture;

const LONGEST = 160; // letters of a text in the headline

const page = new Page(JSON.parse(document.getElementById("payload").textContent));

function themed(wanted) {
  const dark = wanted === "dark" || (wanted === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function headline() {
  const { run, task, data, score, model, parameters, steps, given, said } = page.payload;
  const trained = steps.filter((step) => step > 0);
  const facts = [
    task,
    data ? `data: ${data}` : null,
    `${model}, ${parameters.toLocaleString("en")} parameters`,
    trained.length
      ? `step ${trained.map((step) => step.toLocaleString("en")).join(", ")}`
      : steps.length
        ? "imported"
        : null,
    score,
    run,
  ].filter(Boolean);
  const badge = el("p", { class: "badge", id: "badge", role: "status" }, "comparing with PyTorch …");
  const theme = el(
    "button",
    {
      type: "button",
      class: "quiet",
      id: "theme",
      onclick: () => page.state.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }),
    },
    "Dark",
  );
  page.state.on(["theme"], () =>
    theme.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark")),
  );
  const copy = el(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(location.href);
          copy.textContent = "Copied";
        } catch {
          copy.textContent = "In the address bar";
        }
        setTimeout(() => (copy.textContent = "Copy link"), 2000);
      },
    },
    "Copy link",
  );
  return el(
    "header",
    { class: "top" },
    el(
      "div",
      { class: "bar" },
      el("span", { class: "mark" }, "headway look"),
      el("span", { class: "grow" }),
      copy,
      theme,
    ),
    el(
      "h1",
      { dir: "auto" },
      el("bdi", {}, shortened(given, LONGEST)),
      said
        ? [el("span", { class: "arrow", "aria-label": "becomes" }, " → "), el("bdi", {}, shortened(said, LONGEST))]
        : null,
    ),
    el("p", { class: "facts" }, facts.join(" · ")),
    badge,
  );
}

function oneHead() {
  const source = () => page.look();
  const seen = matrix(source, {
    label: () => `Weights of ${nameOf(page.attention)}, head ${page.state.get("head") + 1}.`,
    pick: (i, j) => page.state.set({ [`at.${page.attention.entry.queries}`]: i, key: j }),
  });
  const made = figure({
    title: "One head",
    name: "head",
    tools: seen.tools,
    note: "Who looks at whom: queries down, keys across. Click a cell to follow it below. Zoom with + and −, or with the wheel and Ctrl.",
    rows: () => {
      const { story, keys, queries, i } = page.look();
      return table(
        `Weights of ${queries[i]}`,
        ["key", "weight"],
        story.keys.map((key) => [`${keys[key.j]} (${key.j + 1})`, figures(key.weight, 4, key.doubts.weight)]),
      );
    },
  });
  const title = made.root.querySelector("figcaption"),
    holder = el("div", { class: "wide" }, seen.node),
    legend = el("div", { class: "wide" });
  made.stage.append(holder, legend);
  page.onLook(() => {
    title.textContent = `${nameOf(page.attention)}, head ${page.look().head + 1}`;
    seen.draw();
    legend.replaceChildren(shareLegend());
    made.refresh();
  }, made.root);
  return made.root;
}

function section(id, short, title, lead, ...content) {
  const inside = content.flat(9).filter(Boolean);
  return inside.length
    ? el(
        "section",
        { id, "aria-labelledby": `${id}-title`, "data-short": short },
        el("h2", { id: `${id}-title` }, title),
        lead ? el("p", { class: "lead" }, lead) : null,
        inside,
      )
    : null;
}

/** What the page leaves out, and why. */
function omission(text) {
  return text ? el("p", { class: "omission" }, text) : null;
}

/** The parts of the page, from input to output, each made when it is its turn. */
function parts() {
  const { payload } = page,
    looks = page.attentions.length > 0;
  return [
    () =>
      section(
        "input",
        "Input",
        "What went in",
        "Choose a token here or anywhere below; everything follows it.",
        payload.image ? pictureInput(page) : null,
        inputs(page),
      ),
    () =>
      section(
        "vectors",
        "Vectors",
        "Vectors and positions",
        "Each token becomes a vector, and learns where it stands.",
        embeddings(page),
        Object.keys(payload.near).map((name) => neighbours(page, name)),
      ),
    looks &&
      (() =>
        section(
          "attention",
          "Heads",
          "Who looks at whom",
          "In every head each token asks a question, its query, and takes from the tokens whose keys answer it.",
          glance(page),
          oneHead(),
          rivals(page),
          payload.image ? pictureLook(page) : null,
        )),
    !looks &&
      payload.left_out &&
      (() =>
        section(
          "attention",
          "Heads",
          "Who looks at whom",
          null,
          omission(
            `This text is so long that the attention of not even one of ${payload.left_out} layers fits into the file. Look at a shorter text.`,
          ),
        )),
    looks &&
      (() =>
        section(
          "story",
          "One look",
          "One look, step by step",
          "All of it is computed here, from the queries, keys and values of the run.",
          ladder(page),
          products(page),
          positions(page),
          values(page),
        )),
    () => section("stream", "Blocks", "Through the blocks", "What every block leaves of a token.", blocks(page)),
    payload.output &&
      (() =>
        section(
          "output",
          "Output",
          "What comes out",
          "The last vector of each token, read by the output layer.",
          output(page),
          payload.lens ? lens(page) : null,
        )),
    (payload.ablation || payload.ablation_left_out) &&
      (() =>
        section(
          "what-if",
          "What if",
          "What if",
          "Every head has a part in the result; some more than others.",
          payload.ablation ? whatIf(page) : omission(payload.ablation_left_out),
        )),
    payload.trace &&
      payload.trace.nodes.length &&
      (() =>
        section(
          "search",
          "Search",
          "How it was found",
          "A model gives probabilities; a search decides which tokens to follow.",
          search(page),
        )),
  ].filter(Boolean);
}

async function start() {
  const addressed = () => page.state.read(location.hash, (key, value) => page.allows(key, value));
  const follow = () => {
    const wanted = page.state.get("s") && document.getElementById(page.state.get("s"));
    if (wanted && wanted.matches("section")) arrived(wanted, "instant");
  };
  addressed();
  page.state.on(["theme"], () => themed(page.state.get("theme")));
  const { nav, links } = bar(page),
    main = el("main", {});
  document.body.append(
    headline(),
    nav,
    main,
    el(
      "footer",
      {},
      el("p", {}, "Written by headway. This file loads nothing; every number in it comes from the run."),
      el("p", { id: "agreement" }),
    ),
  );
  for (const part of parts()) {
    // one after the other, so that the first is seen while the rest is made
    await pause();
    const drawn = page.redraws.length,
      each = part();
    if (!each) continue;
    main.append(each);
    listed(page, links, each);
    for (const { draw } of page.redraws.slice(drawn)) draw(); // now that there is room to measure
  }
  for (const draw of page.themes) draw();
  page.state.on(["theme"], () => {
    page.redraw();
    for (const draw of page.themes) draw();
  });
  let width = innerWidth,
    waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => page.redraw());
  });
  addEventListener("hashchange", () => {
    addressed();
    follow();
  });
  oriented(nav, links, main);
  follow();
  document.documentElement.dataset.ready = "yes";
  setTimeout(() => compared(page), 0);
}

start();
return {  };
})();

})();
