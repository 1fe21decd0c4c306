// One query of one head, step by step: products, scale, position, mask, softmax, weighted values.

import { el, svg, tip, visible, shortened, figures, percent, table } from "./dom.js";
import { shareColour, signedColour } from "./colour.js";
import { figure } from "./figure.js";

const MOST = 10,
  ROW = 26;

/** The keys to tell of: those with most weight, and the chosen one, in their order. */
function told(keys, chosen) {
  const best = [...keys]
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MOST)
    .map((key) => key.j);
  return keys.filter(({ j }) => best.includes(j) || j === chosen);
}

export function ladder(page) {
  const made = figure({
    title: "From products to weights",
    name: "scores",
    note: "What the chosen query makes of each key, from left to right. Choose a key to see its product dimension by dimension.",
    rows: () => {
      const { story, keys } = page.look();
      return table(
        "Every key",
        ["key", "q·k", "times scale", "position", "allowed", "score", "weight"],
        story.keys.map((key) => [
          visible(keys[key.j]),
          key.dot,
          key.scaled,
          key.position,
          key.allowed ? "yes" : "no",
          key.allowed ? key.score : "−∞",
          key.weight,
        ]),
      );
    },
  });
  const facts = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(facts, holder);
  page.onLook(() => {
    const { story, keys, queries, i, j, attention } = page.look(),
      rows = told(story.keys, j),
      entry = attention.entry;
    const position = entry.position && entry.position.kind !== "rotary";
    const width = Math.max(300, holder.clientWidth || 640),
      narrow = width < 520,
      left = narrow ? 84 : 100;
    const steps = [
        ["dot", entry.energy ? "w·tanh(q+k)" : "q·k"],
        ...(narrow ? [] : [["scaled", `× ${figures(story.scale)}`]]),
        ...(position ? [["position", `+ ${entry.position.kind}`]] : []),
        ...(narrow && position ? [] : [["score", "score"]]),
        ["weight", "weight"],
      ],
      column = (width - left) / steps.length,
      bar = Math.max(6, column - (narrow ? 56 : 74));
    const most = Object.fromEntries(
      steps.map(([name]) => [
        name,
        Math.max(1e-9, ...rows.filter((key) => key.allowed || name === "dot").map((key) => Math.abs(key[name]))),
      ]),
    );
    const height = 34 + rows.length * ROW + (rows.length < story.keys.length ? 26 : 2);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `The keys that ${visible(queries[i])} looks at most, with their scores and weights`,
    });
    steps.forEach(([, title], n) =>
      root.append(svg("text", { class: "axis", x: left + n * column + 4, y: 18 }, title)),
    );
    rows.forEach((key, n) => {
      const y = 34 + n * ROW,
        line = svg("g", { class: key.j === j ? "line chosen" : "line" });
      line.append(svg("rect", { class: "ground", x: 0, y, width, height: ROW - 2, rx: 4 }));
      line.append(
        svg(
          "text",
          { class: "piece", x: left - 12, y: y + ROW / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          shortened(visible(keys[key.j]), 12),
        ),
      );
      steps.forEach(([name], m) => line.append(step(name, key, left + m * column, y, bar, most[name])));
      line.addEventListener("click", () => page.state.set({ key: key.j }));
      tip(line, () =>
        [
          `${visible(queries[i])} → ${visible(keys[key.j])}`,
          `q·k ${figures(key.dot, 5)}`,
          `× ${figures(story.scale, 4)} = ${figures(key.scaled, 5)}`,
          position ? `position ${figures(key.position, 5)}` : "",
          key.allowed ? `score ${figures(key.score, 5)}` : "not allowed by the mask",
          `weight ${figures(key.weight, 5)}`,
        ].filter(Boolean),
      );
      root.append(line);
    });
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
    facts.textContent = `A token may look at ${entry.mask_words}.`;
    holder.replaceChildren(root);
    made.refresh();
  });
  return made.root;
}

function step(name, key, x, y, bar, most) {
  const group = svg("g"),
    middle = y + (ROW - 2) / 2,
    off = name !== "dot" && name !== "scaled" && !key.allowed;
  const value = key[name],
    long = off ? 0 : Math.max(1, (Math.abs(value) / most) * bar);
  const fill =
    name === "weight"
      ? shareColour(Math.max(value, 0.08))
      : signedColour(Math.sign(value) * (0.35 + (0.65 * Math.abs(value)) / most), 1);
  if (!off)
    group.append(svg("rect", { x: x + 4, y: middle - 6, width: long, height: 12, rx: 2, fill: fill.formatHex() }));
  group.append(
    svg(
      "text",
      { class: "number", x: x + 10 + long, y: middle, "dominant-baseline": "middle" },
      off && name === "score" ? "masked" : name === "weight" ? percent(value) : figures(value),
    ),
  );
  return group;
}

/** q·k of the chosen pair, dimension by dimension. */
export function products(page) {
  const made = figure({
    title: "One product, dimension by dimension",
    name: "product",
    rows: () => {
      const { parts, E } = pair(page);
      return table(
        "The chosen query and key",
        ["dimension", "q", "k", "product"],
        Array.from({ length: E }, (_, e) => [String(e + 1), parts.q[e], parts.k[e], parts.product[e]]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const { parts, E, total, names, entry } = pair(page),
      width = Math.max(300, holder.clientWidth || 640),
      left = 58;
    const wide = (width - left - 8) / E,
      rows = [
        ["q", parts.q],
        ["k", parts.k],
      ];
    const height = parts.product.some((value) => value < 0) ? 182 : 126;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `q and k of ${names}, and their products, which add up to ${figures(total, 5)}`,
    });
    const sizes = Math.max(...parts.q.map(Math.abs), ...parts.k.map(Math.abs)),
      most = Math.max(1e-9, ...parts.product.map(Math.abs));
    rows.forEach(([name, values], n) => {
      root.append(svg("text", { class: "axis", x: left - 12, y: 16 + n * 24, "text-anchor": "end" }, name));
      values.forEach((value, e) =>
        root.append(
          svg("rect", {
            x: left + e * wide,
            y: 4 + n * 24,
            width: Math.max(wide - 0.5, 0.5),
            height: 18,
            fill: signedColour(value, sizes).formatHex(),
          }),
        ),
      );
    });
    root.append(
      svg("text", { class: "axis", x: left - 12, y: 124, "text-anchor": "end" }, entry.energy ? "w·tanh" : "q × k"),
    );
    root.append(svg("line", { class: "zero", x1: left, x2: width - 8, y1: 120, y2: 120 }));
    parts.product.forEach((value, e) => {
      const long = (Math.abs(value) / most) * 56,
        bar = svg("rect", {
          class: value < 0 ? "minus" : "plus",
          x: left + e * wide,
          y: value < 0 ? 120 : 120 - long,
          width: Math.max(wide - 1, 0.5),
          height: Math.max(long, 0.5),
        });
      root.append(
        tip(bar, () => [
          `dimension ${e + 1}`,
          `q ${figures(parts.q[e], 5)}`,
          `k ${figures(parts.k[e], 5)}`,
          `adds ${figures(value, 5)}`,
        ]),
      );
    });
    sentence.textContent = `${names}: the products add up to ${figures(total, 5)}.`;
    holder.replaceChildren(root);
    made.refresh();
  });
  return made.root;
}

function pair(page) {
  const { attention, head, i, j, queries, keys } = page.look(),
    key = Math.max(j, 0),
    vectors = attention.vectors(head, i, key);
  const energy = page.open(attention.entry.energy),
    q = [...vectors.q],
    k = [...vectors.k];
  const product = q.map((value, e) => (energy ? energy.data[e] * Math.tanh(value + k[e]) : value * k[e]));
  const total = product.reduce((sum, value) => sum + value, 0);
  return {
    parts: { q, k, product },
    E: q.length,
    total,
    names: `${visible(queries[i])} → ${visible(keys[key])}`,
    entry: attention.entry,
    vectors,
  };
}

/** The values, weighted and added up. */
export function values(page) {
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
        [...story.out].map((value, e) => [String(e + 1), value, told_ ? told_.out[e] : "not kept"]),
      );
    },
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.onLook(() => {
    const { story, attention, head, i, j, keys, queries } = page.look(),
      rows = told(story.keys, j).filter((key) => key.weight > 0),
      reference = attention.reference(head, i);
    const W = story.out.length,
      width = Math.max(300, holder.clientWidth || 640),
      left = width < 520 ? 112 : 150,
      wide = (width - left - 8) / W;
    const lines = rows.map((key) => ({
      label: `${percent(key.weight)} ${shortened(visible(keys[key.j]), 10)}`,
      values: Array.from(attention.vectors(head, i, key.j).v, (value) => value * key.weight),
      chosen: key.j === j,
    }));
    lines.push({ label: "sum", values: [...story.out], sum: true });
    if (reference) lines.push({ label: "PyTorch", values: [...reference.out], sum: true });
    const most = Math.max(1e-9, ...lines.flatMap((line) => line.values.map(Math.abs))),
      height = lines.length * 22 + 8;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What ${visible(queries[i])} takes from each key, and the sum`,
    });
    lines.forEach((line, n) => {
      root.append(
        svg(
          "text",
          { class: line.sum ? "piece" : "axis", x: left - 12, y: n * 22 + 15, "text-anchor": "end" },
          line.label,
        ),
      );
      line.values.forEach((value, e) =>
        root.append(
          tip(
            svg("rect", {
              x: left + e * wide,
              y: n * 22 + 2,
              width: Math.max(wide - 0.5, 0.5),
              height: 18,
              fill: signedColour(value, most).formatHex(),
            }),
            () => [line.label, `dimension ${e + 1}: ${figures(value, 5)}`],
          ),
        ),
      );
    });
    holder.replaceChildren(root);
    made.refresh();
  });
  return made.root;
}
