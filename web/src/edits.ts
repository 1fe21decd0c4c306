// Live: the forms that put another text in place of a token, and patch a part with its output for another input.

import { el } from "./dom.ts";

export interface EditActions {
  replace: (text: string) => void; // the chosen token by this
  patch: (input: string, oneHead: boolean) => void; // the chosen attention, or its chosen head, from this input
}

export class EditForms {
  private readonly chosen = el("output", { id: "live-chosen" });
  private readonly by = el("input", {
    type: "text",
    id: "live-by",
    dir: "auto",
    "aria-label": "The text to put there",
  });
  private readonly patched = el(
    "select",
    { id: "live-patched", "aria-label": "What is patched" },
    el("option", { value: "all" }, "the chosen attention"),
    el("option", { value: "head" }, "the chosen head"),
  );
  private readonly other = el("input", { type: "text", id: "live-other", dir: "auto" });
  private readonly replacing: HTMLElement;
  readonly node: HTMLElement;

  constructor({ replace, patch }: EditActions) {
    this.replacing = el(
      "form",
      {
        class: "control",
        onsubmit: (event: Event) => {
          event.preventDefault();
          replace(this.by.value);
        },
      },
      el("span", {}, "Replace the chosen token"),
      this.chosen,
      el("span", {}, "by"),
      this.by,
      el("button", { class: "quiet", id: "live-replace" }, "Replace"),
    );
    this.node = el(
      "details",
      {},
      el("summary", {}, "Edit a token, or patch from another input"),
      this.replacing,
      el(
        "div",
        { class: "control" },
        this.patched,
        el("label", { for: "live-other" }, "from"),
        this.other,
        el(
          "button",
          {
            type: "button",
            class: "quiet",
            id: "live-patch",
            onclick: () => patch(this.other.value, this.patched.value === "head"),
          },
          "Patch",
        ),
      ),
    );
  }

  /** The chosen token of the input; null where no token of it can be replaced. */
  show(token: string | null): void {
    this.replacing.hidden = token === null;
    this.chosen.textContent = token ?? "";
  }
}
