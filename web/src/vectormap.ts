// A map of vectors: the text's tokens and their neighbours, by the first two principal components.

import { el, shortened, svg, swap, table, visible } from "./dom.ts";
import { figures, percent } from "./core/numbers.ts";
import { scaled } from "./core/scale.ts";
import { figure } from "./figure.ts";
import { choices } from "./keyboard.ts";
import type { Page } from "./page.ts";

const ROUNDED = 5e-6; // how far a coordinate may be from the run's: the file keeps five decimals
const LETTER = 7,
  LINE = 14; // of a label, in pixels

export function vectorMap(page: Page, name: string): HTMLElement | null {
  const { map, lists } = page.payload.near[name],
    { tokens, label } = page.payload.sequences[name];
  if (!map) return null;
  const { words, own, places, shares } = map;
  const made = figure({
    title: `${label}: a map of its vectors`,
    name: `map-${name}`,
    note: `The tokens, in bold, and their neighbours by the first two principal components, which hold ${percent(shares[0])} and ${percent(shares[1])} of the variance: what is far apart here is far apart, what is near may be far in other directions.`,
    rows: () =>
      table(
        "Places on the map",
        ["token", "first component", "second component"],
        words.map((word, n) => [visible(word), figures(places[n][0], 4, ROUNDED), figures(places[n][1], 4, ROUNDED)]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const width = Math.max(300, holder.clientWidth || 640),
      height = Math.min(460, Math.max(280, width * 0.55)),
      bounds = (axis: 0 | 1) => places.map((place) => place[axis]),
      x = scaled(Math.min(...bounds(0)), Math.max(...bounds(0)), 14, width - (width < 480 ? 60 : 100)),
      y = scaled(Math.min(...bounds(1)), Math.max(...bounds(1)), height - 14, 14);
    const at = page.state.get(`at.${name}`),
      chosen = tokens[at],
      near = new Set(lists[Math.min(at, lists.length - 1)].map(([word]) => word));
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }),
      taken: [number, number, number][] = []; // where labels stand
    const order = words.map((_, n) => n).sort((a, b) => rank(a) - rank(b));
    function rank(n: number): number {
      return words[n] === chosen && n < own ? 0 : n < own ? 1 : near.has(words[n]) ? 2 : 3;
    }
    const items = order.map((n) => {
      const [left, top] = [x.at(places[n][0]), y.at(places[n][1])],
        text = shortened(visible(words[n]), width < 480 ? 8 : 12),
        wide = LETTER * text.length + 10,
        free = !taken.some(([a, b, w]) => left < a + w && a < left + wide && Math.abs(top - b) < LINE),
        here = rank(n) === 0;
      if (free) taken.push([left, top, wide]);
      const mark = svg(
        "g",
        {
          class: here ? "spot chosen" : n < own ? "spot own" : near.has(words[n]) ? "spot near" : "spot",
        },
        svg("circle", { class: "ground", cx: left, cy: top, r: 12 }),
        svg("circle", { class: "dot", cx: left, cy: top, r: n < own ? 4.5 : 3 }),
        free ? svg("text", { x: left + 8, y: top, "dominant-baseline": "middle" }, text) : null,
      );
      const place = tokens.indexOf(words[n]);
      return {
        node: mark,
        name: visible(words[n]),
        key: String(n),
        chosen: here,
        lines: () => [visible(words[n]), `${figures(places[n][0], 3)}, ${figures(places[n][1], 3)}`],
        choose: () => n < own && place >= 0 && page.choose(name, place),
      };
    });
    root.append(...items.map(({ node }) => node).reverse()); // what is chosen is drawn last
    choices(root, items, { label: `The map of the vectors of ${label.toLowerCase()}` });
    swap(holder, root);
    made.refresh();
  };
  page.watch([`at.${name}`], draw, made.root);
  return made.root;
}
