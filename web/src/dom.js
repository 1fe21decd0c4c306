// Elements, figures and tooltips. Text enters the page as text alone: nothing here reads markup from a string.

import { figures } from "./numbers.js";

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

/** Put new children into a holder; the focus stays on what has the same `data-key`, and the scroll where it was. */
export function swap(holder, ...children) {
  const focused = holder.contains(document.activeElement) ? document.activeElement.dataset.key : undefined,
    { scrollLeft } = holder;
  holder.replaceChildren(...children);
  holder.scrollLeft = scrollLeft;
  if (focused === undefined) return;
  const again = [...holder.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused);
  if (again) again.focus({ preventScroll: true });
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
