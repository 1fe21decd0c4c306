// Live: what is changed, with a button each to undo it, and which side the figures show.

import { el, swap } from "./dom.ts";
import { roving } from "./keyboard.ts";

export type Shown = "before" | "after";

/** A change, and how to undo it. */
export interface Undoable {
  label: string;
  undo: () => void;
}

export class Tray {
  readonly node = el("div", { class: "tray", role: "group", "aria-label": "What is changed" });
  private readonly settle = roving(this.node, { press: false });

  /** `choose` is called with the side that the figures shall show. */
  constructor(private readonly choose: (which: Shown) => void) {}

  show(changes: Undoable[], shown: Shown): void {
    if (!changes.length) {
      this.node.replaceChildren();
      return;
    }
    const chips = changes.map(({ label, undo }) =>
      el("button", { type: "button", class: "token", "aria-label": `Undo: ${label}`, onclick: undo }, `${label} ✕`),
    );
    const tabs = (["before", "after"] as const).map((which) =>
      el(
        "button",
        {
          type: "button",
          class: "tab",
          "aria-pressed": String(shown === which),
          onclick: () => this.choose(which),
        },
        which,
      ),
    );
    swap(
      this.node,
      ...chips,
      el("span", { class: "grow" }),
      el("span", { class: "note" }, "the figures show"),
      ...tabs,
    );
    this.settle();
  }
}
