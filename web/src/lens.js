// The logit lens: what the model would say if it stopped after each block.

import { el, svg, tip, visible, shortened, figures, percent, table } from "./dom.js";
import { shareColour, inkOn } from "./colour.js";
import { figure } from "./figure.js";

const CELL = 84,
  HIGH = 28,
  LEFT = 76;

export function lens(page) {
  const { lens: told } = page.payload,
    { sequence } = page.payload.output;
  const tokens = sequence ? page.payload.sequences[sequence].tokens : [""],
    shares = page.open(told.shares),
    [L, T, K] = shares.shape;
  const best = (layer, place) =>
    Array.from({ length: K }, (_, n) => ({
      word: told.words[told.ids[layer][place][n]],
      share: shares.data[(layer * T + place) * K + n],
    }));
  const made = figure({
    title: "After each block",
    name: "lens",
    note: "What the model would say if the blocks above were left out: each block's stream, read by the last norm and the output layer. Darker is surer.",
    rows: () => {
      const place = Math.min(page.place(), T - 1);
      return table(
        sequence ? `At ${visible(tokens[place])}` : "After each block",
        ["after", "likeliest", "probability", "second", "probability"],
        told.layers.map((name, layer) => {
          const [first, second] = best(layer, place);
          return [
            name,
            visible(first.word),
            percent(first.share),
            second ? visible(second.word) : "",
            second ? percent(second.share) : "",
          ];
        }),
      );
    },
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const place = Math.min(page.place(), T - 1),
      count = Math.min(T, Math.max(3, Math.floor(((holder.clientWidth || 640) - LEFT) / CELL)));
    const from = Math.max(0, Math.min(place - Math.floor(count / 2), T - count)); // as many places around the chosen one as there is room for
    const width = LEFT + count * CELL + 8,
      height = 30 + L * HIGH + 6;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "The likeliest word at each place after each block",
    });
    for (let n = from; n < from + count; n++) {
      const x = LEFT + (n - from) * CELL;
      root.append(
        svg(
          "text",
          { class: n === place ? "piece chosen" : "axis", x: x + CELL / 2, y: 18, "text-anchor": "middle" },
          sequence ? shortened(visible(tokens[n]), 10) : "",
        ),
      );
      told.layers.forEach((name, layer) => {
        const list = best(layer, n),
          fill = shareColour(list[0].share),
          y = 28 + layer * HIGH;
        const cell = svg(
          "g",
          { class: "cell" },
          svg("rect", { x: x + 1, y: y + 1, width: CELL - 2, height: HIGH - 2, rx: 4, fill: fill.formatHex() }),
          svg(
            "text",
            {
              x: x + CELL / 2,
              y: y + HIGH / 2,
              "text-anchor": "middle",
              "dominant-baseline": "middle",
              fill: inkOn(fill),
              style: { fill: inkOn(fill) },
            },
            shortened(visible(list[0].word), 10),
          ),
        );
        cell.addEventListener("click", () => sequence && page.choose(sequence, n));
        root.append(
          tip(cell, () => [
            sequence ? `${name}, at ${visible(tokens[n])}` : name,
            ...list.map(({ word, share }) => `${visible(word)}  ${percent(share)}`),
          ]),
        );
      });
    }
    told.layers.forEach((name, layer) =>
      root.append(
        svg(
          "text",
          {
            class: "axis",
            x: LEFT - 10,
            y: 28 + layer * HIGH + HIGH / 2,
            "text-anchor": "end",
            "dominant-baseline": "middle",
          },
          name,
        ),
      ),
    );
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch(sequence ? [`at.${sequence}`] : ["head"], draw);
  return made.root;
}
