// The stream through the blocks: what a token's vector is after each, and how much each part added.

import type { Stack } from "./core/payload.ts";
import type { Page } from "./page.ts";
import { el, svg, visible, swap, table } from "./dom.ts";
import { choices } from "./keyboard.ts";
import { tip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { figure } from "./figure.ts";
import { chain } from "./chain.ts";
import { strips } from "./input.ts";

export function blocks(page: Page) {
  return page.payload.stacks.flatMap((stack: Stack) => [
    stack.depth ? depth(page, stack, stack.depth) : null,
    Object.keys(stack.layers[0].added).length ? added(page, stack) : null,
    chain(page, stack),
    streams(page, stack),
  ]);
}

function streams(page: Page, stack: Stack) {
  const tensors = stack.layers.flatMap(({ left }, n) =>
      left ? [{ label: `after block ${n + 1}`, tensor: () => page.open(left) }] : [],
    ),
    { out } = stack;
  if (out) tensors.push({ label: "after the last norm", tensor: () => page.open(out) });
  const missing = stack.layers.filter(({ left }) => !left).length,
    left_out = missing
      ? ` To keep the file small, the stream after ${missing} of ${stack.layers.length} blocks is left out.`
      : "";
  if (!tensors.length) return el("p", { class: "omission" }, `${stack.label}: the stream.${left_out}`);
  return strips(page, {
    title: `${stack.label}: the stream`,
    name: `${stack.label}-stream`.toLowerCase(),
    sequence: stack.sequence,
    tensors,
    note: `Every token's vector as each block leaves it: blue above zero, orange below.${left_out}`,
  });
}

/** How many steps a loop thought about each token, and what that cost in training. */
function depth(page: Page, stack: Stack, found: { steps: string; cost: string }) {
  const { tokens } = page.payload.sequences[stack.sequence],
    steps = page.open(found.steps).data,
    cost = page.open(found.cost).data;
  const made = figure({
    title: `${stack.label}: how long each token was thought about`,
    name: `${stack.label}-depth`.toLowerCase(),
    note: "One block, applied again and again: a column a token, its height the number of steps it took before it halted.",
    rows: () =>
      table(
        "Steps",
        ["token", "steps", "ponder cost"],
        tokens.map((piece, n) => [visible(piece), String(steps[n]), cost[n]]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.watch([`at.${stack.sequence}`], () => {
    const T = tokens.length,
      left = 40,
      column = Math.max(24, Math.min(44, ((holder.clientWidth || 640) - left) / T)),
      width = left + T * column + 6,
      base = 130,
      height = 200,
      most = Math.max(1, ...steps);
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    root.append(
      svg("text", { class: "axis", x: left - 10, y: 16, "text-anchor": "end" }, String(most)),
      svg("line", { class: "zero", x1: left, x2: width, y1: base, y2: base }),
    );
    const items = tokens.map((piece, n) => {
      const chosen = page.state.get(`at.${stack.sequence}`) === n,
        tall = (steps[n] / most) * (base - 12);
      const bar = svg(
        "g",
        { class: "cell" },
        svg("rect", {
          class: chosen ? "dot chosen" : "plus",
          x: left + n * column + 2,
          y: base - tall,
          width: column - 4,
          height: tall,
          rx: 2,
        }),
        svg(
          "text",
          {
            class: chosen ? "piece chosen" : "axis",
            transform: `translate(${left + (n + 0.5) * column + 4},${base + 10}) rotate(90)`,
          },
          visible(piece).slice(0, 9),
        ),
      );
      root.append(bar);
      return {
        node: bar,
        name: `${visible(piece)}: ${steps[n]} steps`,
        key: String(n),
        chosen,
        lines: () => [visible(piece), `${steps[n]} steps`, `ponder cost ${figures(cost[n], 4)}`],
        choose: () => page.choose(stack.sequence, n),
      };
    });
    choices(root, items, { label: `Steps each token took, ${most} at most` });
    swap(holder, root);
    made.refresh();
  });
  return made.root;
}

/** How long the vectors are that each part of each block adds to the chosen token. */
function added(page: Page, stack: Stack) {
  const tokens = page.payload.sequences[stack.sequence].tokens,
    parts = Object.keys(stack.layers[0]?.added || {});
  const at = () => Math.min(page.state.get(`at.${stack.sequence}`), tokens.length - 1);
  const made = figure({
    title: `${stack.label}: what each block adds`,
    name: `${stack.label}-added`.toLowerCase(),
    note: "The length of the vector that attention and the position-wise network give for the chosen token, block by block.",
    rows: () =>
      table(
        `What is added for ${visible(tokens[at()])}`,
        ["block", ...parts],
        stack.layers.map((layer, n) => [
          String(n + 1),
          ...parts.map((part) => page.open(layer.added[part]).data[at()]),
        ]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  const draw = () => {
    const L = stack.layers.length,
      width = Math.max(300, holder.clientWidth || 640),
      left = 44,
      height = 164,
      base = height - 24;
    const lengths = stack.layers.map((layer) => parts.map((part) => page.open(layer.added[part]).data[at()])),
      most = Math.max(1e-9, ...lengths.flat());
    const unit = 10 ** Math.floor(Math.log10(most)),
      step = most / unit > 5 ? 2 * unit : most / unit > 2 ? unit : unit / 2,
      tall = (value: number) => (value / most) * (base - 26);
    const block = Math.min((width - left) / L, 120),
      bar = (block - 12) / parts.length;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What each block adds for ${visible(tokens[at()])}`,
    });
    root.append(
      ...Array.from({ length: Math.floor(most / step) + 1 }, (_, n) => [
        svg("line", { class: "zero", x1: left, x2: width, y1: base - tall(n * step), y2: base - tall(n * step) }),
        svg(
          "text",
          { class: "axis", x: left - 8, y: base - tall(n * step) + 4, "text-anchor": "end" },
          String(Number((n * step).toPrecision(2))),
        ),
      ]).flat(),
    );
    lengths.forEach((row, n) => {
      row.forEach((value: number, m) =>
        root.append(
          tip(
            svg("rect", {
              class: `part-${m}`,
              x: left + n * block + 6 + m * bar,
              y: base - tall(value),
              width: Math.max(bar - 2, 1),
              height: tall(value),
              rx: 2,
            }),
            () => [`block ${n + 1}, ${parts[m]}`, `length ${figures(value, 5)}`],
          ),
        ),
      );
      root.append(
        svg(
          "text",
          { class: "axis", x: left + n * block + block / 2, y: base + 16, "text-anchor": "middle" },
          String(n + 1),
        ),
      );
    });
    let x = left;
    parts.forEach((part, m) => {
      root.append(
        svg("rect", { class: `part-${m}`, x, y: 2, width: 10, height: 10, rx: 2 }),
        svg("text", { class: "axis", x: x + 16, y: 11 }, part),
      );
      x += 26 + part.length * 6.4;
    });
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch([`at.${stack.sequence}`], draw, made.root);
  return made.root;
}
