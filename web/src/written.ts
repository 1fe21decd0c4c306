// The text that the model writes, live: its tokens as they come, and at the chosen place the alternatives to branch to.

import { el, swap, visible } from "./dom.ts";
import { figures, percent } from "./core/numbers.ts";
import { roving } from "./keyboard.ts";
import { tip } from "./tips.ts";
import { chances } from "./output.ts";
import type { Page } from "./page.ts";
import type { Written } from "./source.ts";

export const COUNT = 16; // tokens of "Write more"

export class WrittenText {
  private readonly tokens = el("div", { class: "tokens", role: "group", "aria-label": "What is written" });
  private readonly next = el("div", {
    class: "next",
    role: "group",
    "aria-label": "Alternatives: choose one to branch",
  });
  private readonly settleTokens = roving(this.tokens, { press: false });
  private readonly settleNext = roving(this.next, { press: false });
  private readonly seedInput = el("input", { type: "number", id: "live-seed", min: 0, max: 999999, value: "0" });
  private readonly more = el(
    "button",
    { type: "button", class: "quiet", id: "live-write", onclick: () => this.write(null) },
    `Write ${COUNT} more`,
  );
  private readonly writing: HTMLElement;
  readonly node: HTMLElement;

  /** `write` is called with the token that shall stand at the chosen place, or null to write on. */
  constructor(private readonly write: (id: number | null) => void) {
    this.writing = el(
      "div",
      { class: "control", hidden: true },
      el("label", { for: "live-seed" }, "seed"),
      this.seedInput,
      el("span", { class: "note" }, "of the draws, with the temperature, top-k and top-p set below"),
    );
    this.node = el("div", {}, this.tokens, this.next, this.writing);
  }

  get seed(): number {
    return Number(this.seedInput.value);
  }

  show(page: Page): void {
    const { writer, sequences } = page.payload;
    this.writing.hidden = !writer;
    if (!writer) {
      this.tokens.replaceChildren();
      this.next.replaceChildren(
        el("p", { class: "note" }, "This kind of run does not write text token by token: there is nothing to branch."),
      );
      return;
    }
    const { tokens, writes } = sequences[writer.sequence],
      place = `at.${writer.sequence}` as const;
    const chips = (writes ?? tokens).map((piece, n) =>
      el(
        "button",
        {
          type: "button",
          class: "token",
          "data-key": n,
          "aria-label": `${visible(piece)}, token ${n + 1}`,
          onclick: () => page.choose(writer.sequence, n),
        },
        el("bdi", {}, visible(piece)),
      ),
    );
    swap(this.tokens, ...chips);
    page.state.on([place], () => {
      chips.forEach((chip, n) => chip.setAttribute("aria-pressed", String(n === page.state.get(place))));
      this.settleTokens();
      this.alternatives(page);
    });
  }

  /** Tokens that have just been written, with their shares; what else was likely is in their tips. */
  add({ piece, share, top, log_z, entropy, ms }: Written): void {
    this.tokens.append(
      tip(
        el(
          "button",
          { type: "button", class: "token fresh", tabindex: -1 },
          el("bdi", {}, visible(piece)),
          el("span", { class: "score" }, ` ${percent(share)}`),
        ),
        () => [
          visible(piece),
          ...top.slice(0, 5).map(([, word, logit]) => `${visible(word)}  ${percent(Math.exp(logit - log_z))}`),
          `entropy ${figures(entropy)} nats, ${figures(ms)} ms`,
        ],
      ),
    );
  }

  private alternatives(page: Page): void {
    const { output, writer, sequences } = page.payload;
    if (!output || !writer) return;
    const place = page.place(),
      { list } = chances(page, output, place),
      { tokens, writes } = sequences[writer.sequence];
    const buttons = list.map(({ id, word, share, logit }) =>
      tip(
        el(
          "button",
          { type: "button", class: "alternative", "data-key": id, onclick: () => this.write(id) },
          el("bdi", {}, visible(word)),
          el("span", { class: "score" }, percent(share)),
        ),
        () => [
          visible(word),
          `logit ${figures(logit, 5)}`,
          `probability ${figures(share, 5)}`,
          "choose it to branch here",
        ],
      ),
    );
    const where = writes ? `in place of ${visible(writes[place] ?? "…")}` : `after ${visible(tokens[place])}`;
    swap(this.next, el("span", { class: "where" }, `${where}:`), ...buttons, this.more);
    this.settleNext();
  }
}
