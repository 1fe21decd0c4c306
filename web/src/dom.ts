// Elements, figures and tooltips. Text enters the page as text alone: nothing here reads markup from a string.

import { figures } from "./core/numbers.ts";

const SVG = "http://www.w3.org/2000/svg";

export type Child = Node | string | number | null | undefined | false | Child[];
type Attribute = string | number | boolean | null | undefined | Record<string, string> | ((event: never) => unknown);
export type Attributes = Record<string, Attribute>;

function filled<N extends Element>(node: N, attributes: Attributes | null, children: Child[]): N {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value as EventListener);
    else if (name === "style")
      for (const [key, each] of Object.entries(value))
        (node as unknown as ElementCSSInlineStyle).style.setProperty(key, each as string);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of flat(children)) {
    if (child !== null && child !== undefined && child !== false)
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function flat(children: Child[]): Exclude<Child, Child[]>[] {
  return children.flatMap((child) => (Array.isArray(child) ? flat(child) : [child]));
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), attributes ?? null, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag), attributes ?? null, children);
}

/** A token as it is shown: spaces and ends of lines made visible, but not one between words; never nothing. */
export function visible(piece: string): string {
  return (
    String(piece)
      .replace(/^ (?=\S)/, "")
      .replace(/(?<!\S) | (?!\S)/g, "␣")
      .replace(/\n/g, "⏎")
      .replace(/\t/g, "⇥")
      .replace(/[\p{Cc}]/gu, "·") || "∅"
  );
}

export function shortened(text: string, most: number): string {
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, most - 1).join("") + "…";
}

/** Put new children into a holder; the focus stays on what has the same `data-key`, and the scroll where it was. */
export function swap(holder: HTMLElement, ...children: (Node | string)[]): void {
  const active = document.activeElement as HTMLElement | SVGElement | null,
    focused = active && holder.contains(active) ? active.dataset.key : undefined,
    { scrollLeft } = holder;
  holder.replaceChildren(...children);
  holder.scrollLeft = scrollLeft;
  if (focused === undefined) return;
  const again = [...holder.querySelectorAll<HTMLElement | SVGElement>("[data-key]")].find(
    (each) => each.dataset.key === focused,
  );
  if (again) again.focus({ preventScroll: true });
}

/** A table for readers of screens: a header row, then rows of texts and numbers. */
export function table(caption: string, header: string[], rows: (string | number)[][]): HTMLTableElement {
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
export function directionOf(tokens: string[]): "rtl" | "ltr" {
  const found = /[\u0590-\u08ff\ufb1d-\ufefc]|[A-Za-z\u00c0-\u024f\u0370-\u058f]/.exec(tokens.join(""));
  return found && /[\u0590-\u08ff\ufb1d-\ufefc]/.test(found[0]) ? "rtl" : "ltr";
}
