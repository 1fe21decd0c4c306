// Tips: exact numbers where the pointer, the finger or the focus is.

import { el } from "./dom.ts";

let bubble: HTMLElement | null = null;

/** What a tip says; of the focus's event, which has no place, `clientX` is undefined. */
export type Lines = (event: MouseEvent) => string[] | null | false;

export function tipAt(x: number, y: number, lines: string[]): void {
  if (!bubble) document.body.append((bubble = el("div", { class: "tip", role: "status", "aria-live": "polite" })));
  bubble.replaceChildren(...lines.map((line, n) => el(n ? "div" : "strong", { dir: "auto" }, line)));
  bubble.hidden = false;
  const { width, height } = bubble.getBoundingClientRect(),
    room = 8;
  bubble.style.left = `${Math.max(room, Math.min(x + 14, innerWidth - width - room))}px`;
  bubble.style.top = `${y - height - 12 < room ? y + 18 : y - height - 12}px`; // above: below it is what it explains
}

export function hideTip() {
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
export function tip<N extends HTMLElement | SVGElement>(drawn: N, lines: Lines): N {
  const node = drawn as HTMLElement; // of SVG elements as well only what both have
  const show = (event: MouseEvent) => {
    const told = lines(event);
    if (told) tipAt(event.clientX, event.clientY, told);
    else hideTip();
  };
  watchTouches();
  node.addEventListener("pointermove", (event) => event.pointerType !== "touch" && show(event));
  node.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && hideTip());
  node.addEventListener("click", (event) => (event as PointerEvent).pointerType === "touch" && show(event));
  if (drawn instanceof SVGElement && !node.hasAttribute("tabindex")) return drawn;
  node.addEventListener("focusout", hideTip);
  node.addEventListener("focusin", (event) => {
    const focused = event.target as Element,
      told = focused.matches(":focus-visible") && lines(event as unknown as MouseEvent),
      box = focused.getBoundingClientRect();
    if (told) tipAt(box.left, box.top + 4, told);
  });
  return drawn;
}
