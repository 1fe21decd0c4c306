// The logit lens: what the model would say if it stopped after each block.

import type { Page } from "./page.ts";
import { el, svg, visible, shortened, swap, table } from "./dom.ts";
import type { LensEntry, OutputEntry } from "./core/payload.ts";
import { choices, type Choice } from "./keyboard.ts";
import { percent } from "./core/numbers.ts";
import { hex, shareColour, inkOn } from "./core/colour.ts";
import { figure } from "./figure.ts";
import { shareLegend } from "./legend.ts";

interface Cell extends Choice {
  layer: number;
  place: number;
}

const CELL = 84,
  HIGH = 28,
  LEFT = 76,
  COLUMNS = 24; // of a long text, those around the chosen token

export function lens(page: Page, told: LensEntry, { sequence }: OutputEntry) {
  const tokens = sequence ? page.payload.sequences[sequence].tokens : [""],
    shares = page.open(told.shares),
    [L, T, K] = shares.shape;
  const best = (layer: number, place: number) =>
    Array.from({ length: K }, (_, n) => ({
      word: told.words[told.ids[layer][place][n]],
      share: shares.data[(layer * T + place) * K + n],
    }));
  const made = figure({
    title: "After each block",
    name: "lens",
    note: "What the model would say if the blocks above were left out: each block's stream, read by the last norm and the output layer. The stronger the shade, the likelier.",
    rows: () => {
      const place = Math.min(page.place(), T - 1);
      return table(
        sequence ? `At ${visible(tokens[place])}` : "After each block",
        ["after", "likeliest", "probability", "second", "probability"],
        told.layers.map((name: string, layer: number) => {
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
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" }),
    legend = el("div", { class: "wide" });
  made.stage.append(sentence, holder, legend);
  const draw = () => {
    const place = Math.min(page.place(), T - 1),
      count = Math.min(T, COLUMNS),
      from = Math.max(0, Math.min(place - Math.floor(count / 2), T - count)); // around the chosen place
    const width = LEFT + count * CELL + 8,
      height = 30 + L * HIGH + 6;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }),
      items: Cell[] = [];
    for (let n = from; n < from + count; n++) {
      const x = LEFT + (n - from) * CELL;
      root.append(
        svg(
          "text",
          { class: n === place ? "piece chosen" : "axis", x: x + CELL / 2, y: 18, "text-anchor": "middle" },
          sequence ? shortened(visible(tokens[n]), 10) : "",
        ),
      );
    }
    told.layers.forEach((name: string, layer: number) => {
      const y = 28 + layer * HIGH;
      root.append(
        svg(
          "text",
          { class: "axis", x: LEFT - 10, y: y + HIGH / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          name,
        ),
      );
      for (let n = from; n < from + count; n++) items.push(cellOf(root, layer, n, LEFT + (n - from) * CELL, y));
    });
    for (const item of items) item.chosen = item.layer === L - 1 && item.place === place;
    choices(root, items, { label: "The likeliest token at each place after each block", columns: count });
    sentence.textContent = count < T ? `Places ${from + 1} to ${from + count} of ${T}, around the chosen one.` : "";
    sentence.hidden = count === T;
    swap(holder, root);
    legend.replaceChildren(shareLegend());
    const left = (place - from) * CELL;
    if (left < holder.scrollLeft || left + CELL + LEFT > holder.scrollLeft + holder.clientWidth)
      holder.scrollLeft = left + LEFT + CELL / 2 - holder.clientWidth / 2;
    made.refresh();
  };
  function cellOf(root: SVGElement, layer: number, n: number, x: number, y: number): Cell {
    const list = best(layer, n),
      fill = shareColour(list[0].share),
      where = sequence ? `${told.layers[layer]}, at ${visible(tokens[n])}` : told.layers[layer];
    const cell = svg(
      "g",
      { class: "cell" },
      svg("rect", { x: x + 1, y: y + 1, width: CELL - 2, height: HIGH - 2, rx: 4, fill: hex(fill) }),
      svg(
        "text",
        {
          x: x + CELL / 2,
          y: y + HIGH / 2,
          "text-anchor": "middle",
          "dominant-baseline": "middle",
          style: { fill: inkOn(fill) },
        },
        shortened(visible(list[0].word), 10),
      ),
    );
    root.append(cell);
    return {
      node: cell,
      choose: () => sequence && page.choose(sequence, n),
      lines: () => [where, ...list.map(({ word, share }) => `${visible(word)}  ${percent(share)}`)],
      name: `${where}: ${visible(list[0].word)}, ${percent(list[0].share)}`,
      key: `${layer} ${n}`,
      layer,
      place: n,
    };
  }
  page.watch(sequence ? [`at.${sequence}`] : ["head"], draw, made.root);
  return made.root;
}
