// The beginning: tokens, their vectors, and where they stand.

import type { Stack } from "./core/payload.ts";
import type { Page } from "./page.ts";
import { el, shortened, table } from "./dom.ts";
import { tip, tipAt } from "./tips.ts";
import { decimals, figures } from "./core/numbers.ts";
import { doubt, type Tensor } from "./core/tensors.ts";
import { ticks } from "./core/layout.ts";
import { fitted, cells, drawCells } from "./canvas.ts";
import { signedColour } from "./core/colour.ts";
import { figure } from "./figure.ts";
import { signedLegend } from "./legend.ts";
import { tokenStrip } from "./tokens.ts";

const ROW = 14,
  LEFT = 84;
const ROUNDED =
  " To keep the file small, these numbers are rounded to 0.4 % of their row's largest, and printed with the figures that leaves.";

export function inputs(page: Page) {
  return Object.keys(page.payload.sequences)
    .filter((name) => !page.payload.sequences[name].grid)
    .map((name) => {
      const { label, tokens, ids } = page.payload.sequences[name];
      return el(
        "div",
        { class: "sequence" },
        el("h3", {}, label, el("small", {}, ids ? `${tokens.length} tokens` : String(tokens.length))),
        tokenStrip(page, name).node,
      );
    });
}

/** Tensors (T, D), one at a time, as rows of coloured cells with tokens beside them. */
export interface Strip {
  label: string;
  tensor: () => Tensor;
}
interface Strips {
  title: string;
  note: string;
  tensors: Strip[];
  sequence: string;
  name: string;
}
interface Cell {
  t: number;
  d: number;
}

export function strips(page: Page, { title, note, tensors, sequence, name }: Strips) {
  const names = page.namesOf(sequence, Infinity);
  let chosen = 0,
    dimension = 0;
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const tabs = tensors.map(({ label }, n: number) =>
    el(
      "button",
      {
        type: "button",
        class: "tab",
        "aria-pressed": String(!n),
        onclick: () => {
          chosen = n;
          draw();
        },
      },
      label,
    ),
  );
  const place = (rows: number) => Math.min(page.state.get(`at.${sequence}`), rows - 1);
  const number = ({ tensor }: Strip, t: number, d: number) => {
    const opened = tensor(),
      [T, D] = opened.shape;
    return t < T && d < D ? decimals(opened.data[t * D + d], doubt(opened, t)) : "";
  };
  const made = figure({
    title,
    note: note + (tensors[0].tensor().steps ? ROUNDED : ""),
    name,
    tools: tabs.length > 1 ? tabs : [],
    rows: () => {
      const [T, D] = tensors[0].tensor().shape,
        at = place(T);
      return table(
        names[at],
        ["dimension", ...tensors.map(({ label }) => label)],
        Array.from({ length: D }, (_, d) => [String(d + 1), ...tensors.map((each) => number(each, at, d))]),
      );
    },
  });
  const legend = el("div", { class: "wide" });
  made.stage.append(el("div", { class: "wide" }, canvas), legend);
  function draw() {
    const {
      shape: [T, D],
      data,
    } = tensors[chosen].tensor();
    const width = Math.max(200, made.stage.clientWidth || 600),
      row = Math.min(ROW, 560 / T);
    const context = fitted(canvas, width, T * row),
      style = getComputedStyle(canvas);
    let most = 0;
    for (const value of data) most = Math.max(most, Math.abs(value));
    drawCells(
      context,
      cells(D, T, (x, y) => signedColour(data[y * D + x], most)),
      LEFT,
      0,
      width - LEFT,
      T * row,
    );
    legend.replaceChildren(signedLegend(most));
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const at = page.state.get(`at.${sequence}`);
    for (const t of ticks(T, Math.ceil(13 / row), at)) {
      context.fillStyle = style.getPropertyValue(t === at ? "--accent" : "--ink-2");
      context.fillText(shortened(names[t] ?? "", 11), LEFT - 8, (t + 0.5) * row);
    }
    tabs.forEach((tab, n) => tab.setAttribute("aria-pressed", String(n === chosen)));
    canvas.setAttribute(
      "aria-label",
      `${tensors[chosen].label}: ${T} tokens by ${D} dimensions, from ${figures(-most)} to ${figures(most)}. Arrow keys choose a token and a dimension; the table holds one token's numbers.`,
    );
    made.refresh();
  }
  function cellAt(event: MouseEvent): Cell | null {
    const {
        shape: [T, D],
      } = tensors[chosen].tensor(),
      box = canvas.getBoundingClientRect();
    if (event.clientX === undefined) return { t: place(T), d: Math.min(dimension, D - 1) };
    const t = Math.floor(((event.clientY - box.top) / box.height) * T),
      d = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT)) * D);
    return t >= 0 && t < T && d >= 0 && d < D ? { t, d } : null;
  }
  const lines = (cell: Cell | null) =>
    cell && [
      `${names[cell.t] ?? ""}, dimension ${cell.d + 1}`,
      ...tensors.map((each) => `${each.label} ${number(each, cell.t, cell.d)}`),
    ];
  tip(canvas, (event) => lines(cellAt(event)));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) page.choose(sequence, cell.t);
  });
  canvas.addEventListener("keydown", (event) => {
    const [T, D] = tensors[chosen].tensor().shape,
      move = (
        { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<
          string,
          [number, number]
        >
      )[event.key];
    if (!move) return;
    event.preventDefault();
    const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, value));
    dimension = within(dimension + move[1], D);
    page.choose(sequence, within(place(T) + move[0], T));
    const box = canvas.getBoundingClientRect(),
      t = place(T);
    tipAt(
      box.left + LEFT + ((dimension + 0.5) / D) * (box.width - LEFT),
      box.top + (t / T) * box.height,
      lines({ t, d: dimension }) ?? [],
    );
  });
  page.watch([`at.${sequence}`], draw, made.root);
  return made.root;
}

export function embeddings(page: Page) {
  return page.payload.stacks
    .filter((stack: Stack) => stack.input.length)
    .map((stack: Stack) =>
      strips(page, {
        title: `${stack.label}: what goes in`,
        name: `${stack.label}-input`.toLowerCase(),
        sequence: stack.sequence,
        note: `A row a token, a column a dimension. ${stack.positions}`,
        tensors: stack.input.map(({ label, tensor }) => ({ label, tensor: () => page.open(tensor) })),
      }),
    );
}
