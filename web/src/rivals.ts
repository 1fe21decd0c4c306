// Which heads look from the chosen query at the chosen key, and how much: all of those that could.

import type { Page } from "./page.ts";
import { el, svg, swap, table } from "./dom.ts";
import { choices } from "./keyboard.ts";
import { percent, figures } from "./core/numbers.ts";
import { figure } from "./figure.ts";

const SHOWN = 8;

interface Rival {
  index: number;
  head: number;
  name: string;
  weight: number;
}

export function rivals(page: Page) {
  const printed = ({ index, head, weight }: Rival, i: number) =>
    figures(weight, 5, page.attentions[index].weightDoubt(head, i, weight));
  const found = () => {
    const { attention, i, j, queries, keys } = page.look();
    const list = page.attentions.flatMap((each, index): Rival[] =>
      each.entry.queries === attention.entry.queries &&
      each.entry.keys === attention.entry.keys &&
      each.entry.kind === attention.entry.kind
        ? Array.from({ length: each.heads }, (_, head) => ({
            index,
            head,
            name: `${each.entry.unit} ${each.entry.layer + 1}, head ${head + 1}`,
            weight: each.weights(head, i)[j],
          }))
        : [],
    );
    return { list: list.sort((a, b) => b.weight - a.weight), from: queries[i], to: keys[j], i };
  };
  const made = figure({
    title: "Which heads attend there",
    name: "heads-that-attend-there",
    rows: () => {
      const { list, from, to, i } = found();
      return table(
        `From ${from} to ${to}`,
        ["head", "weight"],
        list.map((each) => [each.name, printed(each, i)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const { list, from, to, i } = found(),
      shown = list.slice(0, SHOWN),
      width = Math.max(300, holder.clientWidth || 640),
      left = 128,
      row = 26,
      height = shown.length * row + 4,
      bar = Math.max(30, width - left - 70);
    made.root.hidden = list.length < 2; // a model of one head has no others
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const items = shown.map((each, n) => {
      const { index, head, name, weight } = each;
      const y = n * row,
        chosen = page.state.get("attention") === index && page.state.get("head") === head;
      const line = svg(
        "g",
        { class: chosen ? "line chosen" : "line" },
        svg("rect", { class: "ground", x: 0, y, width, height: row - 2, rx: 4 }),
        svg(
          "text",
          { class: "piece", x: left - 12, y: y + row / 2 - 1, "text-anchor": "end", "dominant-baseline": "middle" },
          name,
        ),
        svg("rect", {
          x: left,
          y: y + 5,
          width: Math.max(1, weight * bar),
          height: row - 12,
          rx: 3,
          class: "bar",
        }),
        svg(
          "text",
          { class: "number", x: left + weight * bar + 8, y: y + row / 2 - 1, "dominant-baseline": "middle" },
          percent(weight),
        ),
      );
      root.append(line);
      return {
        node: line,
        name: `${name}: ${percent(weight)}`,
        key: `${index} ${head}`,
        chosen,
        lines: () => [name, `weight ${printed(each, i)}`],
        choose: () => page.state.set({ attention: index, head, key: page.look().j }),
      };
    });
    choices(root, items, { label: `Heads by how much ${from} attends to ${to}` });
    sentence.textContent = `From ${from} to ${to}: of the ${list.length} heads of ${page.attention.entry.label.toLowerCase()} ${page.attention.entry.kind === "cross" ? "cross-attention" : "self-attention"}, those that attend there most.`;
    swap(holder, root);
    made.refresh();
  }, made.root);
  return made.root;
}
