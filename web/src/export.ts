// Any figure as a file: its title, sentences and stage are redrawn as one SVG; a PNG is that SVG, twice as fine.

import { pen } from "./canvas.ts";

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

interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
  reach: (right: number, bottom: number) => void;
}
type Out = { append: (part: Element) => void };

function node(tag: string, attributes: Record<string, string | number>, text?: string): SVGElement {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

function clear(colour: string): boolean {
  return colour === "transparent" || /rgba?\([^)]*,\s*0\)$/.test(colour) || /\/ 0\)$/.test(colour);
}

function copied(original: SVGElement): SVGElement {
  const copy = original.cloneNode(true) as SVGElement,
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
function linesOf(text: Node) {
  const range = document.createRange(),
    lines: { text: string; left: number; top: number; height: number; right: number }[] = [];
  for (const { 0: word, index } of (text.nodeValue ?? "").matchAll(/\S+\s*/g)) {
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

function drawText(out: Out, text: Node, place: Place): void {
  if (!text.parentElement) return;
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

function drawElement(out: Out, each: Element, place: Place): void {
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
    for (const [name, value] of Object.entries(size)) copy.setAttribute(name, String(value));
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
    else if (child instanceof Element) drawElement(out, child, place);
  }
}

/** Where a figure begins, and how far what was drawn of it reaches: further than its box, where it scrolls. */
function placeOf(root: HTMLElement): Place {
  const { left, top } = (root.querySelector(".head") ?? root).getBoundingClientRect();
  const place: Place = {
    left,
    top,
    width: 0,
    height: 0,
    reach: (right, bottom) => {
      place.width = Math.max(place.width, right - left);
      place.height = Math.max(place.height, bottom - top);
    },
  };
  return place;
}

/** Do something while the figure is laid out whole: nothing scrolled, nothing cut off. */
function whole<T>(root: HTMLElement, act: () => T): T {
  const scrolled = [root, ...root.querySelectorAll("*")].filter((each) => each.scrollLeft || each.scrollTop),
    before = scrolled.map((each) => ({ each, left: each.scrollLeft, top: each.scrollTop }));
  for (const each of scrolled) each.scrollTo({ left: 0, top: 0, behavior: "instant" });
  root.classList.add("whole");
  try {
    return act();
  } finally {
    root.classList.remove("whole");
    for (const { each, left, top } of before) each.scrollTo({ left, top, behavior: "instant" });
  }
}

/** The figure as one SVG: its title, its sentences, what it shows, and its legend. */
function picture(root: HTMLElement, title: string) {
  const parts: Element[] = [],
    place = whole(root, () => {
      const found = placeOf(root),
        into: Out = { append: (part) => parts.push(part) };
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

export async function asSvg(root: HTMLElement, title: string): Promise<Blob> {
  return new Blob([picture(root, title).text], { type: "image/svg+xml" });
}

export async function asPng(root: HTMLElement, title: string): Promise<Blob> {
  const { text, width, height } = picture(root, title),
    image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas"),
    fine = Math.min(2, 8000 / Math.max(width, height));
  canvas.width = width * fine;
  canvas.height = height * fine;
  pen(canvas).drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) =>
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the picture is too large"))), "image/png"),
  );
}

export function saved(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
