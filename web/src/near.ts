// The nearest tokens in the embedding table.

import type { Page } from "./page.ts";
import { el, svg, visible, shortened, swap, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { figure } from "./figure.ts";

const SPACES = {
  table: {
    title: "the embedding table",
    note: "The tokens of the vocabulary whose rows of the embedding table point most nearly the same way as the chosen token's, by the cosine between them.",
    none: "only the first tokens of a long text have neighbours here.",
  },
  sentences: {
    title: "the space of sentence vectors",
    note: "The whole words whose sentence vectors point most nearly the same way as that of the chosen token, each encoded as a sentence of one word, by the cosine between them.",
    none: "not a whole word, so it has no sentence vector of its own, and no neighbours.",
  },
};

const ROUNDED = 4.9e-5; // how far a cosine may be from the run's: the file keeps four decimals

export function neighbours(page: Page, name: string) {
  const { space, lists } = page.payload.near[name],
    { tokens, label } = page.payload.sequences[name];
  const at = () => Math.min(page.state.get(`at.${name}`), lists.length - 1);
  const made = figure({
    title: `${label}: neighbours in ${SPACES[space].title}`,
    name: `neighbours-${name}`,
    note: SPACES[space].note,
    rows: () =>
      table(
        `Neighbours of ${visible(tokens[at()])}`,
        ["token", "cosine"],
        lists[at()].map(([word, cosine]) => [word, figures(cosine, 4, ROUNDED)]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const list = lists[at()],
      width = Math.max(300, holder.clientWidth || 640),
      left = 130,
      row = 24,
      height = Math.max(1, list.length) * row + 26,
      bar = Math.max(40, width - left - 70);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Neighbours of ${visible(tokens[at()])}`,
    });
    root.append(
      svg(
        "text",
        { class: "piece chosen", x: left - 12, y: 14, "text-anchor": "end" },
        shortened(visible(tokens[at()]), 14),
      ),
      svg("text", { class: "axis", x: left, y: 14 }, "cosine"),
    );
    if (!list.length) {
      swap(holder, el("p", { class: "note" }, `${visible(tokens[at()])}: ${SPACES[space].none}`));
      made.refresh();
      return;
    }
    list.forEach(([word, cosine], n) => {
      const y = 22 + n * row;
      root.append(
        tip(
          svg(
            "g",
            {},
            svg("rect", { class: "ground", x: 0, y, width, height: row }),
            svg(
              "text",
              { class: "piece", x: left - 12, y: y + row / 2, "text-anchor": "end", "dominant-baseline": "middle" },
              shortened(visible(word), 14),
            ),
            svg("rect", {
              x: left,
              y: y + 5,
              width: Math.max(1, Math.max(0, cosine) * bar),
              height: row - 10,
              rx: 3,
              class: "bar",
            }),
            svg(
              "text",
              {
                class: "number",
                x: left + Math.max(0, cosine) * bar + 8,
                y: y + row / 2,
                "dominant-baseline": "middle",
              },
              figures(cosine, 3, ROUNDED),
            ),
          ),
          () => [visible(word), `cosine ${figures(cosine, 4, ROUNDED)}`],
        ),
      );
    });
    swap(holder, root);
    made.refresh();
  };
  page.watch([`at.${name}`], draw, made.root);
  return made.root;
}
