// The nearest tokens in the embedding table.

import { el, svg, tip, visible, shortened, figures, table } from "./dom.js";
import { shareColour } from "./colour.js";
import { figure } from "./figure.js";

export function neighbours(page, name) {
  const lists = page.payload.near[name],
    { tokens, label } = page.payload.sequences[name];
  const at = () => Math.min(page.state.get(`at.${name}`), lists.length - 1);
  const made = figure({
    title: `${label}: neighbours in embedding space`,
    name: `neighbours-${name}`,
    note: "The tokens whose vectors point most nearly the same way as the chosen token's, by the cosine between them.",
    rows: () => table(`Neighbours of ${visible(tokens[at()])}`, ["token", "cosine"], lists[at()]),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const list = lists[at()],
      width = Math.max(300, holder.clientWidth || 640),
      left = 130,
      row = 24,
      height = list.length * row + 26,
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
    list.forEach(([word, cosine], n) => {
      const y = 22 + n * row;
      root.append(
        tip(
          svg(
            "g",
            {},
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
              fill: shareColour(0.15 + 0.5 * Math.max(0, cosine)).formatHex(),
            }),
            svg(
              "text",
              {
                class: "number",
                x: left + Math.max(0, cosine) * bar + 8,
                y: y + row / 2,
                "dominant-baseline": "middle",
              },
              figures(cosine),
            ),
          ),
          () => [visible(word), `cosine ${figures(cosine, 4)}`],
        ),
      );
    });
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch([`at.${name}`], draw);
  return made.root;
}
