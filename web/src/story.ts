// One query of one head, step by step: products, scale, position, mask, softmax, weighted values.

import type { KeyStory } from "./core/attention.ts";
import type { Page } from "./page.ts";
import { el, svg, shortened, swap, table } from "./dom.ts";
import { choices } from "./keyboard.ts";
import { tip } from "./tips.ts";
import { figures, percent } from "./core/numbers.ts";
import { hex, signedColour } from "./core/colour.ts";
import { figure } from "./figure.ts";
import { signedLegend } from "./legend.ts";

const MOST = 10,
  ROW = 26;

/** The keys to tell of: those with most weight, and the chosen one, in their order. */
type Step = "dot" | "scaled" | "position" | "score" | "weight";

function told(keys: KeyStory[], chosen: number): KeyStory[] {
  const best = [...keys]
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MOST)
    .map((key) => key.j);
  return keys.filter(({ j }) => best.includes(j) || j === chosen);
}

export function ladder(page: Page) {
  const made = figure({
    title: "From products to weights",
    name: "scores",
    note: "What the chosen query makes of each key, from left to right. Choose a key to see its product dimension by dimension.",
    rows: () => {
      const { story, keys } = page.look();
      return table(
        "Every key",
        ["key", "q·k", "times scale", "position", "allowed", "score", "weight"],
        story.keys.map((key: KeyStory) => [
          keys[key.j],
          figures(key.dot, 4, key.doubts.dot),
          figures(key.scaled, 4, key.doubts.scaled),
          figures(key.position, 4, key.doubts.position),
          key.allowed ? "yes" : "no",
          key.allowed ? figures(key.score, 4, key.doubts.score) : "−∞",
          figures(key.weight, 4, key.doubts.weight),
        ]),
      );
    },
  });
  const facts = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(facts, holder);
  page.onLook(() => {
    const { story, keys, queries, who, i, j, attention } = page.look(),
      rows = told(story.keys, j),
      entry = attention.entry;
    const position = entry.position && entry.position.kind !== "rotary" ? entry.position.kind : null;
    const width = Math.max(300, holder.clientWidth || 640),
      narrow = width < 520,
      left = narrow ? 84 : 100;
    const steps: [Step, string][] = [
        ["dot", entry.energy ? "w·tanh(q+k)" : "q·k"],
        ...(narrow ? [] : [["scaled", `× ${figures(story.scale)}`] as [Step, string]]),
        ...(position ? [["position", `+ ${position}`] as [Step, string]] : []),
        ...(narrow && position ? [] : [["score", "score"] as [Step, string]]),
        ["weight", "weight"],
      ],
      column = (width - left) / steps.length,
      bar = Math.max(6, column - (narrow ? 66 : 78));
    const most = new Map(
      steps.map(([name]) => [
        name,
        Math.max(
          1e-9,
          ...rows
            .filter((key: KeyStory) => key.allowed || name === "dot" || name === "scaled")
            .map((key: KeyStory) => Math.abs(key[name])),
        ),
      ]),
    );
    const height = 34 + rows.length * ROW + (rows.length < story.keys.length ? 26 : 2);
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    steps.forEach(([, title], n) =>
      root.append(svg("text", { class: "axis", x: left + n * column + 4, y: 18 }, title)),
    );
    const items = rows.map((key: KeyStory, n: number) => {
      const y = 34 + n * ROW,
        line = svg("g", { class: key.j === j ? "line chosen" : "line" });
      line.append(svg("rect", { class: "ground", x: 0, y, width, height: ROW - 2, rx: 4 }));
      line.append(
        svg(
          "text",
          { class: "piece", x: left - 12, y: y + ROW / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          shortened(keys[key.j], narrow ? 8 : 12),
        ),
      );
      steps.forEach(([name], m) => line.append(step(name, key, left + m * column, y, bar, most.get(name) ?? 1)));
      root.append(line);
      return {
        node: line,
        name: `${keys[key.j]}: ${percent(key.weight)}`,
        key: String(key.j),
        chosen: key.j === j,
        choose: () => page.state.set({ key: key.j }),
        lines: () =>
          [
            `${who}, attending to ${keys[key.j]}`,
            `q·k ${figures(key.dot, 5, key.doubts.dot)}`,
            `× ${figures(story.scale, 4)} = ${figures(key.scaled, 5, key.doubts.scaled)}`,
            position ? `position ${figures(key.position, 5, key.doubts.position)}` : "",
            key.allowed ? `score ${figures(key.score, 5, key.doubts.score)}` : "not allowed by the mask",
            `weight ${figures(key.weight, 5, key.doubts.weight)}`,
          ].filter(Boolean),
      };
    });
    choices(root, items, { label: `The keys that ${queries[i]} attends to most, with their weights` });
    const rest = story.keys.length - rows.length,
      left_over = 1 - rows.reduce((sum, key) => sum + key.weight, 0);
    if (rest > 0)
      root.append(
        svg(
          "text",
          { class: "axis", x: left, y: height - 8 },
          `${rest} more keys share ${percent(Math.max(0, left_over))}`,
        ),
      );
    facts.textContent = `A token may attend to ${entry.mask_words}.`;
    swap(holder, root);
    made.refresh();
  }, made.root);
  return made.root;
}

function step(name: Step, key: KeyStory, x: number, y: number, bar: number, most: number) {
  const group = svg("g"),
    middle = y + (ROW - 2) / 2,
    off = name !== "dot" && name !== "scaled" && !key.allowed;
  const value = key[name],
    long = off ? 0 : Math.max(1, (Math.abs(value) / most) * bar);
  if (!off)
    group.append(
      svg("rect", { class: value < 0 ? "minus" : "plus", x: x + 4, y: middle - 6, width: long, height: 12, rx: 2 }),
    );
  group.append(
    svg(
      "text",
      { class: "number", x: x + 10 + long, y: middle, "dominant-baseline": "middle" },
      off && name === "score"
        ? "masked"
        : name === "weight"
          ? percent(value, key.doubts.weight)
          : figures(value, 3, key.doubts[name]),
    ),
  );
  return group;
}

/** q·k of the chosen pair, dimension by dimension; with `follows` a click on a cell follows it back to its weights. */
export function products(page: Page, follows: boolean) {
  const made = figure({
    title: "One product, dimension by dimension",
    name: "product",
    rows: () => {
      const { E, printed } = pair(page);
      return table(
        "The chosen query and key",
        ["dimension", "q", "k", "product"],
        Array.from({ length: E }, (_, e) => [String(e + 1), ...printed(e)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const { parts, E, total, names, entry, printed } = pair(page),
      width = Math.max(300, holder.clientWidth || 640),
      left = 58;
    const wide = (width - left - 8) / E,
      rows: [string, number[]][] = [
        ["q", parts.q],
        ["k", parts.k],
      ];
    const largest = Math.max(1e-9, ...parts.product.map(Math.abs)),
      height = 128 + 56 * Math.max(0, -Math.min(...parts.product) / largest);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `q and k. ${names}: the products add up to ${total}`,
    });
    const picked = (cell: SVGElement, of: "q" | "k", dim: number) => {
      if (!follows) return cell;
      cell.classList.add("line");
      cell.addEventListener("click", () => page.state.set({ of, dim }));
      return cell;
    };
    const sizes = Math.max(...parts.q.map(Math.abs), ...parts.k.map(Math.abs));
    rows.forEach(([name, values], n) => {
      root.append(svg("text", { class: "axis", x: left - 12, y: 16 + n * 24, "text-anchor": "end" }, name));
      values.forEach((value: number, e: number) =>
        root.append(
          picked(
            svg("rect", {
              x: left + e * wide,
              y: 4 + n * 24,
              width: Math.max(wide - 0.5, 0.5),
              height: 18,
              fill: hex(signedColour(value, sizes)),
            }),
            n ? "k" : "q",
            e,
          ),
        ),
      );
    });
    root.append(
      svg("text", { class: "axis", x: left - 12, y: 124, "text-anchor": "end" }, entry.energy ? "w·tanh" : "q × k"),
    );
    root.append(svg("line", { class: "zero", x1: left, x2: width - 8, y1: 120, y2: 120 }));
    parts.product.forEach((value, e) => {
      const long = (Math.abs(value) / largest) * 56,
        bar = svg("rect", {
          class: value < 0 ? "minus" : "plus",
          x: left + e * wide,
          y: value < 0 ? 120 : 120 - long,
          width: Math.max(wide - 1, 0.5),
          height: Math.max(long, 0.5),
        });
      root.append(
        tip(picked(bar, "q", e), () => {
          const [q, k, product] = printed(e);
          return [`dimension ${e + 1}`, `q ${q}`, `k ${k}`, `adds ${product}`];
        }),
      );
    });
    sentence.textContent = `${names}: the products add up to ${total}.`;
    holder.replaceChildren(root, signedLegend(sizes));
    made.refresh();
  }, made.root);
  return made.root;
}

function pair(page: Page) {
  const { attention, head, i, j, who, keys, story } = page.look(),
    key = Math.max(j, 0),
    vectors = attention.vectors(head, i, key),
    { doubts } = vectors;
  const energy = page.open(attention.entry.energy),
    q = [...vectors.q],
    k = [...vectors.k];
  const product = q.map((value, e) => (energy ? energy.data[e] * Math.tanh(value + k[e]) : value * k[e]));
  const printed = (e: number) => {
    const weight = energy ? Math.abs(energy.data[e]) : 0,
      error = energy ? weight * (doubts.q + doubts.k) : Math.abs(k[e]) * doubts.q + Math.abs(q[e]) * doubts.k;
    return [figures(q[e], 5, doubts.q), figures(k[e], 5, doubts.k), figures(product[e], 5, error)];
  };
  return {
    parts: { q, k, product },
    E: q.length,
    total: figures(story.keys[key].dot, 5, story.keys[key].doubts.dot),
    names: `${who}, attending to ${keys[key]}`,
    entry: attention.entry,
    printed,
  };
}

interface Line {
  label: string;
  values: number[];
  doubt: number;
  sum?: boolean;
}

/** The values, weighted and added up. */
export function values(page: Page) {
  const made = figure({
    title: "Weighted values, added up",
    name: "values",
    note: "Each key's value times its weight; below, their sum over all keys: what this head passes on. Where the file keeps PyTorch's own row, it stands below it.",
    rows: () => {
      const { story, attention, head, i } = page.look(),
        told_ = attention.reference(head, i);
      return table(
        "What the head passes on",
        ["dimension", "computed here", "PyTorch"],
        [...story.out].map((value, e) => [
          String(e + 1),
          figures(value, 4, story.outDoubt),
          told_ ? figures(told_.out[e], 4, told_.outDoubt) : "not kept",
        ]),
      );
    },
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.onLook(() => {
    const { story, attention, head, i, j, keys, queries } = page.look(),
      rows = told(story.keys, j).filter((key: KeyStory) => key.weight > 0),
      reference = attention.reference(head, i);
    const W = story.out.length,
      width = Math.max(300, holder.clientWidth || 640),
      left = width < 520 ? 112 : 150,
      wide = (width - left - 8) / W;
    const lines: Line[] = rows.map((key) => {
      const { v, doubts } = attention.vectors(head, i, key.j);
      return {
        label: `${percent(key.weight, key.doubts.weight)} ${shortened(keys[key.j], width < 520 ? 7 : 10)}`,
        values: Array.from(v, (value) => value * key.weight),
        doubt: key.weight * doubts.v + key.doubts.weight * Math.max(...v.map(Math.abs)),
      };
    });
    lines.push({ label: "sum", values: [...story.out], doubt: story.outDoubt, sum: true });
    if (reference) lines.push({ label: "PyTorch", values: [...reference.out], doubt: reference.outDoubt, sum: true });
    const most = Math.max(1e-9, ...lines.flatMap((line) => line.values.map(Math.abs))),
      height = lines.length * 22 + 8;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What ${queries[i]} takes from each key, and the sum`,
    });
    lines.forEach((line, n) => {
      root.append(
        svg(
          "text",
          { class: line.sum ? "piece" : "axis", x: left - 12, y: n * 22 + 15, "text-anchor": "end" },
          line.label,
        ),
      );
      line.values.forEach((value: number, e: number) =>
        root.append(
          tip(
            svg("rect", {
              x: left + e * wide,
              y: n * 22 + 2,
              width: Math.max(wide - 0.5, 0.5),
              height: 18,
              fill: hex(signedColour(value, most)),
            }),
            () => [line.label, `dimension ${e + 1}: ${figures(value, 5, line.doubt)}`],
          ),
        ),
      );
    });
    holder.replaceChildren(root, signedLegend(most));
    made.refresh();
  }, made.root);
  return made.root;
}
