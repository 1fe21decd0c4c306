// Live: which second model stands beside the one that is looked at.

import { el } from "./dom.ts";
import type { Choice } from "./source.ts";

export class Second {
  private choices: Choice[] = [];
  private readonly select = el("select", { id: "live-beside", onchange: () => this.chosen(this.now()) });
  readonly node = el(
    "span",
    { class: "control", hidden: true },
    el("label", { for: "live-beside" }, "Compare with"),
    this.select,
  );

  /** `chosen` is called with a run or a checkpoint, or null for nothing. */
  constructor(private readonly chosen: (choice: Choice | null) => void) {}

  offer(choices: Choice[]): void {
    this.choices = choices;
    this.node.hidden = !choices.length;
    this.select.replaceChildren(
      el("option", { value: "" }, "nothing"),
      ...choices.map(({ run, step }, n) =>
        el("option", { value: n }, step === null ? run : `step ${step.toLocaleString("en")} of this run`),
      ),
    );
  }

  private now(): Choice | null {
    return this.select.value === "" ? null : this.choices[Number(this.select.value)];
  }
}
