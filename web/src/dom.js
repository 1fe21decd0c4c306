// Elements, figures and tooltips. Text enters the page as text alone: nothing here reads markup from a string.

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

export function el(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A token as it is shown: spaces and ends of lines made visible, never nothing. */
export function visible(piece) {
  return (
    String(piece)
      .replace(/^ (?=\S)/, "")
      .replace(/ /g, "␣")
      .replace(/\n/g, "⏎")
      .replace(/\t/g, "⇥")
      .replace(/[\p{Cc}]/gu, "·") || "∅"
  );
}

export function shortened(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

/** A number for a reader: three or four figures that count. */
export function figures(value, digits = 3) {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1) : value.toPrecision(digits);
  return text.replace("-", "−").replace(/e\+?/, "e").replace("e-", "e−");
}

export function percent(share) {
  return share > 0 && share < 5e-4 ? "<0.1%" : `${(100 * share).toFixed(1)}%`;
}

let bubble = null;

function showTip(x, y, lines) {
  if (!bubble) document.body.append((bubble = el("div", { class: "tip", role: "status", "aria-live": "polite" })));
  bubble.replaceChildren(...lines.map((line, n) => el(n ? "div" : "strong", { dir: "auto" }, line)));
  bubble.hidden = false;
  const { width, height } = bubble.getBoundingClientRect(),
    room = 8;
  bubble.style.left = `${Math.max(room, Math.min(x + 14, innerWidth - width - room))}px`;
  bubble.style.top = `${y + 18 + height > innerHeight ? Math.max(room, y - height - 12) : y + 18}px`;
}

export function hideTip() {
  if (bubble) bubble.hidden = true;
}

/** Exact numbers where the pointer or the focus is; `lines(event)` gives null for nothing. */
export function tip(node, lines) {
  node.addEventListener("pointermove", (event) => {
    const told = lines(event);
    told ? showTip(event.clientX, event.clientY, told) : hideTip();
  });
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("blur", hideTip);
  node.addEventListener("focus", (event) => {
    const told = node.matches(":focus-visible") && lines(event),
      box = node.getBoundingClientRect();
    if (told) showTip(box.left, box.bottom - 12, told);
  });
  return node;
}

/** A table for readers of screens: a header row, then rows of texts and numbers. */
export function table(caption, header, rows) {
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
export function directionOf(tokens) {
  const found = /[\u0590-\u08ff\ufb1d-\ufefc]|[A-Za-z\u00c0-\u024f\u0370-\u058f]/.exec(tokens.join(""));
  return found && /[\u0590-\u08ff\ufb1d-\ufefc]/.test(found[0]) ? "rtl" : "ltr";
}

/** Arrow keys move the focus among the buttons of a group, which is one stop of the tab key. */
export function roving(group, columns = 1) {
  const buttons = () => [...group.querySelectorAll("button")];
  group.addEventListener("keydown", (event) => {
    const all = buttons(),
      at = all.indexOf(document.activeElement);
    const back = getComputedStyle(group).direction === "rtl" ? 1 : -1;
    const step = {
      ArrowRight: -back,
      ArrowLeft: back,
      ArrowDown: columns,
      ArrowUp: -columns,
      Home: -at,
      End: all.length - 1 - at,
    }[event.key];
    if (at < 0 || step === undefined) return;
    event.preventDefault();
    const next = all[at + step];
    if (next) {
      next.focus();
      next.click();
    }
  });
  return () => {
    const all = buttons(),
      chosen = all.find((button) => button.getAttribute("aria-pressed") === "true") || all[0];
    for (const button of all) button.tabIndex = button === chosen ? 0 : -1;
  };
}
