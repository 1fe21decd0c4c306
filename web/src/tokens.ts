// A text as a row of tokens to choose from.

import type { Page } from "./page.ts";
import { el, visible, directionOf } from "./dom.ts";
import { tip } from "./tips.ts";
import { roving } from "./keyboard.ts";

const JOINED = "·"; // in front of a token that continues a word

/** Buttons for the tokens of a sequence; `shade(n)` gives a colour or null, `lines(n)` the tooltip. */
interface Painting {
  shade?: (n: number) => string | null;
  ink?: (n: number) => string | null;
  lines?: (n: number) => string[] | null;
  label?: string;
}

export function tokenStrip(
  page: Page,
  name: string,
  { shade = () => null, ink = () => null, lines = () => null, label }: Painting = {},
) {
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
