// One token through one block, with formulas: what each part adds, the sum, the norm, and PyTorch's stream beside it.

import { el, svg, swap, table } from "./dom.ts";
import { figure } from "./figure.ts";
import { signedLegend } from "./legend.ts";
import { figures } from "./core/numbers.ts";
import { chainOf, type ChainStep } from "./core/chain.ts";
import { hex, signedColour } from "./core/colour.ts";
import { tip } from "./tips.ts";
import type { Stack } from "./core/payload.ts";
import type { Page } from "./page.ts";

const NAMES = { input: "x, what enters", self: "attention", cross: "cross-attention", feedforward: "network" };
const ROW = 24;

interface Row {
  label: string;
  formula: string;
  values: ArrayLike<number>;
  doubts?: ArrayLike<number>;
}

export function chain(page: Page, stack: Stack) {
  const blocks = stack.layers.flatMap(({ steps, left }, n) => (steps && left ? [{ n, steps, left }] : []));
  if (!blocks.length) return null;
  let chosen = blocks[blocks.length - 1];
  const at = () => page.state.get(`at.${stack.sequence}`),
    key = `at.${stack.sequence}` as const;
  const rows = (): Row[] => {
    const t = Math.min(at(), page.open(chosen.left).shape[0] - 1),
      D = page.open(chosen.left).shape[1];
    const found = chainOf(chosen.steps, t, page.open).flatMap(told);
    return [
      ...found,
      {
        label: "PyTorch",
        formula: "the stream after this block",
        values: page.open(chosen.left).data.subarray(t * D, (t + 1) * D),
      },
    ];
  };
  const tabs = blocks.map((each) =>
    el(
      "button",
      {
        type: "button",
        class: "tab",
        onclick: () => {
          chosen = each;
          draw();
        },
      },
      `block ${each.n + 1}`,
    ),
  );
  const made = figure({
    title: `${stack.label}: one token through a block`,
    name: `${stack.label}-chain`.toLowerCase(),
    tools: tabs.length > 1 ? tabs : [],
    note: chosen.steps.some(({ norm }) => norm)
      ? "x ← norm(x + part(x)), part by part: (x − mean) / √(variance + ε) · gain + shift. All of it is computed here from each part's output; the last row is PyTorch's."
      : "x ← x + part(norm(x)), part by part: the sum is computed here from each part's output; the last row is PyTorch's.",
    rows: () => {
      const all = rows();
      return table(
        page.namesOf(stack.sequence, Infinity)[at()],
        ["dimension", ...all.map(({ label }) => label)],
        Array.from(all[0].values, (_, d) => [
          String(d + 1),
          ...all.map(({ values, doubts }) => figures(values[d], 5, doubts?.[d])),
        ]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  const draw = () => {
    tabs.forEach((tab, n) => tab.setAttribute("aria-pressed", String(blocks[n] === chosen)));
    const all = rows(),
      [computed, told] = all.slice(-2).map(({ values }) => Array.from(values)),
      off = Math.max(...computed.map((value, d) => Math.abs(value - told[d])));
    sentence.textContent = `${page.namesOf(stack.sequence, Infinity)[at()]}: computed here and PyTorch's stream differ by ${off ? figures(off, 2) : "0"} at most.`;
    const most = Math.max(1e-9, ...all.flatMap(({ values }) => Array.from(values, Math.abs)));
    swap(holder, drawn(all, Math.max(240, holder.clientWidth || 640), most), signedLegend(most));
    made.refresh();
  };
  page.watch([key], draw, made.root);
  return made.root;
}

/** A step as rows: what is added, the sum, and the sum normalised. */
function told({ part, added, sum, normed, doubts }: ChainStep): Row[] {
  if (part === "input") return [{ label: NAMES.input, formula: "x", values: added }];
  const name = NAMES[part],
    rows: Row[] = [
      { label: `+ ${name}`, formula: `${name}(x)`, values: added },
      { label: "= sum", formula: `x + ${name}(x)`, values: sum, doubts },
    ];
  if (normed)
    rows.push({
      label: "norm",
      formula: `(x − ${figures(normed.mean, 4, 2 ** -22 * normed.root)}) / ${figures(normed.root, 4)}${normed.gain ? " · gain" : ""}${normed.shift ? " + shift" : ""}`,
      values: normed.values,
      doubts: normed.doubts,
    });
  return rows;
}

/** Rows of cells, all in one scale, so that one sees them add up. */
function drawn(rows: Row[], width: number, most: number): SVGElement {
  const left = width < 420 ? 128 : 140,
    D = rows[0].values.length,
    wide = (width - left - 8) / D,
    height = rows.length * ROW + 4;
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Each step of the block, a row a step, a column a dimension; the table holds the numbers",
  });
  rows.forEach(({ label, formula, values, doubts }, n) => {
    const y = n * ROW;
    root.append(
      svg(
        "text",
        { class: label.startsWith("+") ? "axis" : "piece", x: left - 12, y: y + 16, "text-anchor": "end" },
        label,
      ),
    );
    for (let d = 0; d < D; d++)
      root.append(
        svg("rect", {
          x: left + d * wide,
          y: y + 2,
          width: Math.max(wide - 0.5, 0.5),
          height: ROW - 5,
          fill: hex(signedColour(values[d], most)),
        }),
      );
    root.append(
      tip(svg("rect", { class: "ground", x: left, y, width: width - left, height: ROW }), (event) => {
        const box = root.getBoundingClientRect(),
          d = Math.max(0, Math.min(D - 1, Math.floor((event.clientX - box.left - left) / wide)));
        return [`${label}, dimension ${d + 1}`, formula, figures(values[d], 5, doubts?.[d])];
      }),
    );
  });
  return root;
}
