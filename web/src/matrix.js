// One head's weights as a matrix to pan and zoom: queries down, keys across. Rows are computed as they come into sight.

import { el, shortened } from "./dom.js";
import { tip, hideTip } from "./tips.js";
import { figures } from "./numbers.js";
import { fitted, drawCells } from "./canvas.js";
import { sharePixels } from "./colour.js";
import { ticks } from "./layout.js";

const LARGEST = 64; // pixels of a cell's side
const TALLEST = 760; // pixels of the whole matrix, before it is zoomed
const FINGER = 24; // pixels of a cell's side, at least, on a screen that is touched
const LETTERS = 11,
  LONG = 19; // of a token's name across and down
const BUDGET = 14; // milliseconds of computing before the page has its turn

const rooms = new WeakMap(); // the longest of each list of tokens

/** {node, draw}: a canvas for the attention `source()` gives as {attention, head, queries, keys, i, j}. */
export function matrix(source, { pick, label }) {
  const canvas = el("canvas", { tabindex: 0, role: "img", class: "matrix" });
  let rows = new Map(),
    shown = null,
    view = d3.zoomIdentity,
    waiting = 0;

  function geometry() {
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
      at = (n, size) => Math.max(0, Math.min(size * (k - 1), (n + 0.5) * FINGER - size / 2));
    const x = -at(Math.max(j, 0), g.across) - g.LABELS * (k - 1),
      y = -at(i, g.down) - g.TOP * (k - 1);
    zoomed.call(zooming.transform, d3.zoomIdentity.translate(x, y).scale(k));
  }

  function rowOf(i) {
    const { attention, head } = source();
    if (!rows.has(i)) rows.set(i, attention.weights(head, i));
    return rows.get(i);
  }

  /** Where the first cell's corner lies from the corner of the room, which d3 measures from the canvas's. */
  function corner(g) {
    return { x: view.x + g.LABELS * (view.k - 1), y: view.y + g.TOP * (view.k - 1) };
  }

  /** The cells in sight, one pixel each; where a pixel stands for many, the largest of every so many counts. */
  function region(g, size) {
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
    Object.assign(canvas.dataset, { left: LABELS, top: TOP, cell: size });
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

  function mark(context, { i, j, attention }, size, g) {
    const style = getComputedStyle(canvas),
      { LABELS, TOP } = g,
      { x, y } = corner(g);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(LABELS + x, TOP + y + i * size, attention.S * size, size);
    if (j >= 0) context.strokeRect(LABELS + x + j * size, TOP + y + i * size, size, size);
  }

  function labels(context, { queries, keys, i, j }, g, size) {
    const style = getComputedStyle(canvas),
      every = Math.max(1, Math.ceil(13 / size)),
      { LABELS, TOP } = g,
      first = corner(g);
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    const ink = (chosen) => {
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

  function cellAt(event) {
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
      move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
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

  const zooming = d3
    .zoom()
    .scaleExtent([1, 64])
    .filter((event) =>
      event.type === "wheel"
        ? event.ctrlKey || event.metaKey || view.k > 1
        : event.type === "touchstart"
          ? event.touches.length > 1 || view.k > 1
          : !event.button,
    )
    .extent(() => {
      const g = geometry();
      return [
        [g.LABELS, g.TOP],
        [g.width, g.height],
      ];
    })
    .translateExtent([
      [0, 0],
      [1, 1],
    ])
    .on("zoom", (event) => {
      view = event.transform;
      canvas.style.touchAction = view.k > 1 ? "none" : ""; // a finger pans the matrix, or else the page
      hideTip();
      draw();
    });
  const zoomed = d3.select(canvas).call(zooming).on("dblclick.zoom", null);
  function bounds() {
    const g = geometry();
    zooming.translateExtent([
      [g.LABELS, g.TOP],
      [g.width, g.height],
    ]);
  }
  function zoomBy(factor) {
    bounds();
    zoomed.call(zooming.scaleBy, factor);
  }
  function reset() {
    zoomed.call(zooming.transform, d3.zoomIdentity);
  }

  const tools = [
    ["−", "Zoom out", () => zoomBy(1 / 1.5)],
    ["+", "Zoom in", () => zoomBy(1.5)],
    ["fit", "Show all", reset],
  ].map(([text, name, act]) =>
    el("button", { type: "button", class: "quiet", "aria-label": name, onclick: act }, text),
  );
  let first = true;
  return {
    node: canvas,
    tools,
    draw: () => {
      bounds();
      if (first) fingerSized();
      first = false;
      draw();
    },
  };
}

/** Pixels for the longest of some tokens. */
function roomFor(tokens, most) {
  if (!rooms.has(tokens))
    rooms.set(
      tokens,
      tokens.reduce((long, name) => Math.max(long, name.length), 2),
    );
  return 20 + 7.2 * Math.min(most, rooms.get(tokens));
}

/** Rows of weights as an image, a pixel a cell or the largest of a few; rows that are not computed yet stay empty. */
function painted(seen, { left, columns, rows, step }, S) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"),
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
