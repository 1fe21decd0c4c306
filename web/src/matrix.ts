// One head's weights as a matrix to pan and zoom: queries down, keys across. Rows are computed as they come into sight.

import { el, shortened } from "./dom.ts";
import { tip, hideTip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { fitted, drawCells, pen } from "./canvas.ts";
import type { Look } from "./page.ts";
import { WHOLE, enlarged, within, type Extent, type View } from "./core/view.ts";
import { panZoom } from "./panzoom.ts";
import { sharePixels } from "./core/colour.ts";
import { ticks } from "./core/layout.ts";

const LARGEST = 64; // pixels of a cell's side
const TALLEST = 760; // pixels of the whole matrix, before it is zoomed
const FINGER = 24; // pixels of a cell's side, at least, on a screen that is touched
const LETTERS = 11,
  LONG = 19; // of a token's name across and down
const BUDGET = 14; // milliseconds of computing before the page has its turn

const rooms = new WeakMap<string[], number>(); // the longest of each list of tokens

/** {node, draw}: a canvas for the attention `source()` gives as {attention, head, queries, keys, i, j}. */
interface Geometry {
  T: number;
  S: number;
  cell: number;
  LABELS: number;
  TOP: number;
  width: number;
  height: number;
  across: number;
  down: number;
}
interface Part {
  left: number;
  above: number;
  columns: number;
  rows: number;
  step: number;
}
type Shown = Pick<Look, "attention" | "head" | "queries" | "keys" | "i" | "j">;

export function matrix(
  source: () => Shown,
  { pick, label }: { pick: (i: number, j: number) => void; label: () => string },
) {
  const canvas = el("canvas", { tabindex: 0, role: "img", class: "matrix" });
  let rows = new Map<number, Float32Array>(),
    shown = "",
    view: View = WHOLE,
    waiting = 0;

  function geometry(): Geometry {
    const { attention, queries, keys } = source(),
      width = canvas.parentElement ? canvas.parentElement.clientWidth : 640;
    const LABELS = roomFor(queries, LONG),
      TOP = roomFor(keys, LETTERS);
    const T = attention.T,
      S = attention.S,
      wide = Math.max(120, width - LABELS);
    const cell = Math.min(LARGEST, wide / S, TALLEST / T),
      across = S * cell,
      down = T * cell;
    return { T, S, cell, LABELS, TOP, width: LABELS + across, height: TOP + down, across, down };
  }

  /** On a screen that is touched, start with cells that a finger can hit; the rest is a drag away. */
  function fingerSized() {
    const g = geometry();
    if (!matchMedia("(pointer: coarse)").matches || g.cell >= FINGER) return;
    const { i, j } = source(),
      k = FINGER / g.cell,
      at = (n: number, size: number) => Math.max(0, Math.min(size * (k - 1), (n + 0.5) * FINGER - size / 2));
    const x = -at(Math.max(j, 0), g.across) - g.LABELS * (k - 1),
      y = -at(i, g.down) - g.TOP * (k - 1);
    show({ x, y, k });
  }

  function rowOf(i: number): Float32Array {
    const { attention, head } = source(),
      row = rows.get(i) ?? attention.weights(head, i);
    rows.set(i, row);
    return row;
  }

  /** Where the first cell's corner lies from the corner of the room, which the view measures from the canvas's. */
  function corner(g: Geometry) {
    return { x: view.x + g.LABELS * (view.k - 1), y: view.y + g.TOP * (view.k - 1) };
  }

  /** The cells in sight, one pixel each; where a pixel stands for many, the largest of every so many counts. */
  function region(g: Geometry, size: number): Part {
    const { x, y } = corner(g),
      left = Math.max(0, Math.floor(-x / size)),
      above = Math.max(0, Math.floor(-y / size));
    const right = Math.min(g.S, Math.ceil((g.across - x) / size)),
      below = Math.min(g.T, Math.ceil((g.down - y) / size));
    const step = Math.max(1, Math.floor(1 / size));
    return {
      left,
      above,
      columns: Math.max(1, Math.ceil((right - left) / step)),
      rows: Math.max(1, Math.ceil((below - above) / step)),
      step,
    };
  }

  function draw() {
    const told = source(),
      key = `${told.attention.entry.name} ${told.head}`;
    if (key !== shown) {
      rows = new Map();
      shown = key;
    }
    const g = geometry(),
      context = fitted(canvas, g.width, g.height),
      size = g.cell * view.k,
      part = region(g, size);
    const until = performance.now() + BUDGET;
    let missing = false;
    const seen = Array.from({ length: part.rows }, (_, n) => {
      const i = part.above + n * part.step;
      if (!rows.has(i) && performance.now() > until) {
        missing = true;
        return null;
      }
      return rowOf(i);
    });
    const image = painted(seen, part, g.S);
    const { LABELS, TOP } = g,
      { x, y } = corner(g);
    for (const [name, place] of Object.entries({ left: LABELS, top: TOP, cell: size }))
      canvas.dataset[name] = String(place);
    context.save();
    context.beginPath();
    context.rect(LABELS, TOP, g.across, g.down);
    context.clip();
    drawCells(
      context,
      image,
      LABELS + x + part.left * size,
      TOP + y + part.above * size,
      part.columns * part.step * size,
      part.rows * part.step * size,
    );
    mark(context, told, size, g);
    context.restore();
    labels(context, told, g, size);
    canvas.setAttribute(
      "aria-label",
      `${label()} The table below holds the numbers. Arrow keys choose a query and a key, plus and minus zoom.`,
    );
    cancelAnimationFrame(waiting);
    if (missing) waiting = requestAnimationFrame(draw);
  }

  function mark(context: CanvasRenderingContext2D, { i, j, attention }: Shown, size: number, g: Geometry) {
    const style = getComputedStyle(canvas),
      { LABELS, TOP } = g,
      { x, y } = corner(g);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(LABELS + x, TOP + y + i * size, attention.S * size, size);
    if (j >= 0) context.strokeRect(LABELS + x + j * size, TOP + y + i * size, size, size);
  }

  function labels(context: CanvasRenderingContext2D, { queries, keys, i, j }: Shown, g: Geometry, size: number) {
    const style = getComputedStyle(canvas),
      every = Math.max(1, Math.ceil(13 / size)),
      { LABELS, TOP } = g,
      first = corner(g);
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    const ink = (chosen: boolean) => {
      context.fillStyle = style.getPropertyValue(chosen ? "--accent" : "--ink-2");
    };
    context.textAlign = "right";
    for (const n of ticks(g.T, every, i)) {
      const y = TOP + first.y + (n + 0.5) * size;
      if (y < TOP || y > TOP + g.down) continue;
      ink(n === i);
      context.fillText(shortened(queries[n], LONG), LABELS - 8, y);
    }
    context.textAlign = "left";
    for (const n of ticks(g.S, every, j)) {
      const x = LABELS + first.x + (n + 0.5) * size;
      if (x < LABELS || x > LABELS + g.across) continue;
      ink(n === j);
      context.save();
      context.translate(x, TOP - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(shortened(keys[n], LETTERS), 0, 0);
      context.restore();
    }
  }

  function cellAt(event: MouseEvent) {
    const box = canvas.getBoundingClientRect(),
      g = geometry(),
      size = g.cell * view.k;
    const x = event.clientX - box.left - g.LABELS,
      y = event.clientY - box.top - g.TOP,
      first = corner(g);
    const j = Math.floor((x - first.x) / size),
      i = Math.floor((y - first.y) / size);
    return x < 0 || y < 0 || i < 0 || j < 0 || i >= g.T || j >= g.S ? null : { i, j };
  }

  tip(canvas, (event) => {
    const cell = event.clientX === undefined ? null : cellAt(event);
    if (!cell) return null;
    const { attention, head, queries, keys } = source(),
      weight = rowOf(cell.i)[cell.j];
    return [
      `${queries[cell.i]} → ${keys[cell.j]}`,
      `weight ${figures(weight, 4, attention.weightDoubt(head, cell.i, weight))}`,
      `query ${cell.i + 1}, key ${cell.j + 1}`,
    ];
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) pick(cell.i, cell.j);
  });
  canvas.addEventListener("keydown", (event) => {
    const { i, j, attention } = source(),
      move = (
        { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<
          string,
          [number, number]
        >
      )[event.key];
    if (move) {
      event.preventDefault();
      pick(
        Math.max(0, Math.min(attention.T - 1, i + move[0])),
        Math.max(0, Math.min(attention.S - 1, Math.max(j, 0) + move[1])),
      );
    } else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") reset();
  });

  const extent = (): Extent => {
    const g = geometry();
    return { left: g.LABELS, top: g.TOP, right: g.width, bottom: g.height };
  };
  function show(next: View) {
    view = within(next, extent());
    canvas.style.touchAction = view.k > 1 ? "none" : ""; // a finger pans the matrix, or else the page
    hideTip();
    draw();
  }
  panZoom(canvas, extent, () => view, show);
  function zoomBy(factor: number) {
    const { left, top, right, bottom } = extent();
    show(enlarged(view, factor, (left + right) / 2, (top + bottom) / 2, extent()));
  }
  const reset = () => show(WHOLE);

  const actions: [string, string, () => void][] = [
    ["−", "Zoom out", () => zoomBy(1 / 1.5)],
    ["+", "Zoom in", () => zoomBy(1.5)],
    ["fit", "Show all", reset],
  ];
  const tools = actions.map(([text, name, act]) =>
    el("button", { type: "button", class: "quiet", "aria-label": name, onclick: act }, text),
  );
  let first = true;
  return {
    node: canvas,
    tools,
    draw: () => {
      view = within(view, extent());
      if (first) fingerSized();
      first = false;
      draw();
    },
  };
}

/** Pixels for the longest of some tokens. */
function roomFor(tokens: string[], most: number): number {
  const longest = rooms.get(tokens) ?? tokens.reduce((long, name) => Math.max(long, name.length), 2);
  rooms.set(tokens, longest);
  return 20 + 7.2 * Math.min(most, longest);
}

/** Rows of weights as an image, a pixel a cell or the largest of a few; rows that are not computed yet stay empty. */
function painted(seen: (Float32Array | null)[], { left, columns, rows, step }: Part, S: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = pen(canvas, true),
    image = context.createImageData(columns, rows),
    pixels = new Uint32Array(image.data.buffer),
    ramp = sharePixels();
  seen.forEach((row, y) => {
    const line = y * columns;
    if (!row) {
      pixels.fill(ramp[0], line, line + columns);
      return;
    }
    for (let x = 0, j = left; x < columns; x++, j += step) {
      let most = row[j];
      for (let n = 1; n < step && j + n < S; n++) if (row[j + n] > most) most = row[j + n];
      pixels[line + x] = ramp[(255 * Math.sqrt(most) + 0.5) | 0];
    }
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
