// One head's weights as a matrix to pan and zoom: queries down, keys across. Rows are computed as they come into sight.

import { el, svg, tip, hideTip, visible, shortened, figures, percent } from "./dom.js";
import { fitted, drawCells } from "./canvas.js";
import { shareColour, sharePixels } from "./colour.js";

const LABELS = 118, TOP = 76, LARGEST = 44; // pixels kept for tokens at the left and above, and of a cell's side
const LETTERS = 11, LONG = 16; // of a token's name across and down
const BUDGET = 14; // milliseconds of computing before the page has its turn

/** {node, draw}: a canvas for the attention `source()` gives as {attention, head, queries, keys, i, j}. */
export function matrix(source, { pick, label }) {
  const canvas = el("canvas", { tabindex: 0, role: "img", class: "matrix" });
  let rows = new Map(), shown = null, view = d3.zoomIdentity, waiting = 0;

  function geometry() {
    const { attention } = source(), width = canvas.parentElement ? canvas.parentElement.clientWidth : 640;
    const T = attention.T, S = attention.S, wide = Math.max(120, width - LABELS);
    const cell = Math.min(LARGEST, wide / S, Math.max(560, wide) / T), across = S * cell, down = T * cell;
    return { T, S, cell, width: LABELS + across, height: TOP + down, across, down };
  }

  function rowOf(i) {
    const { attention, head } = source();
    if (!rows.has(i)) rows.set(i, attention.weights(head, i));
    return rows.get(i);
  }

  /** The cells in sight, one pixel each; where a pixel stands for many, the largest of every so many counts. */
  function region(g, size) {
    const left = Math.max(0, Math.floor(-view.x / size)), above = Math.max(0, Math.floor(-view.y / size));
    const right = Math.min(g.S, Math.ceil((g.across - view.x) / size)), below = Math.min(g.T, Math.ceil((g.down - view.y) / size));
    const step = Math.max(1, Math.floor(1 / size));
    return { left, above, columns: Math.max(1, Math.ceil((right - left) / step)), rows: Math.max(1, Math.ceil((below - above) / step)), step };
  }

  function draw() {
    const told = source(), key = `${told.attention.entry.name} ${told.head}`;
    if (key !== shown) { rows = new Map(); shown = key; }
    const g = geometry(), context = fitted(canvas, g.width, g.height), size = g.cell * view.k, part = region(g, size);
    const until = performance.now() + BUDGET;
    let missing = false;
    const seen = Array.from({ length: part.rows }, (_, n) => {
      const i = part.above + n * part.step;
      if (!rows.has(i) && performance.now() > until) { missing = true; return null; }
      return rowOf(i);
    });
    const image = painted(seen, part, g.S);
    context.save();
    context.beginPath();
    context.rect(LABELS, TOP, g.across, g.down);
    context.clip();
    drawCells(context, image, LABELS + view.x + part.left * size, TOP + view.y + part.above * size, part.columns * part.step * size, part.rows * part.step * size);
    mark(context, told, size);
    context.restore();
    labels(context, told, g, size);
    canvas.setAttribute("aria-label", `${label()} The table below holds the numbers. Arrow keys choose a query and a key, plus and minus zoom.`);
    cancelAnimationFrame(waiting);
    if (missing) waiting = requestAnimationFrame(draw);
  }

  function mark(context, { i, j, attention }, size) {
    const style = getComputedStyle(canvas);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(LABELS + view.x, TOP + view.y + i * size, attention.S * size, size);
    if (j >= 0) context.strokeRect(LABELS + view.x + j * size, TOP + view.y + i * size, size, size);
  }

  function labels(context, { queries, keys, i, j }, g, size) {
    const style = getComputedStyle(canvas), every = Math.max(1, Math.ceil(13 / size));
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    const ink = (chosen) => { context.fillStyle = style.getPropertyValue(chosen ? "--accent" : "--ink-2"); };
    context.textAlign = "right";
    for (let n = 0; n < g.T; n++) {
      const y = TOP + view.y + (n + 0.5) * size;
      if ((n % every && n !== i) || y < TOP || y > TOP + g.down) continue;
      ink(n === i);
      context.fillText(shortened(visible(queries[n]), LONG), LABELS - 8, y);
    }
    context.textAlign = "left";
    for (let n = 0; n < g.S; n++) {
      const x = LABELS + view.x + (n + 0.5) * size;
      if ((n % every && n !== j) || x < LABELS || x > LABELS + g.across) continue;
      ink(n === j);
      context.save();
      context.translate(x, TOP - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(shortened(visible(keys[n]), LETTERS), 0, 0);
      context.restore();
    }
  }

  function cellAt(event) {
    const box = canvas.getBoundingClientRect(), g = geometry(), size = g.cell * view.k;
    const x = event.clientX - box.left - LABELS, y = event.clientY - box.top - TOP;
    const j = Math.floor((x - view.x) / size), i = Math.floor((y - view.y) / size);
    return x < 0 || y < 0 || i < 0 || j < 0 || i >= g.T || j >= g.S ? null : { i, j };
  }

  tip(canvas, (event) => {
    const cell = event.clientX === undefined ? null : cellAt(event);
    if (!cell) return null;
    const { queries, keys } = source();
    return [`${visible(queries[cell.i])} → ${visible(keys[cell.j])}`, `weight ${figures(rowOf(cell.i)[cell.j], 4)}`, `query ${cell.i + 1}, key ${cell.j + 1}`];
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) pick(cell.i, cell.j);
  });
  canvas.addEventListener("keydown", (event) => {
    const { i, j, attention } = source(), move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      event.preventDefault();
      pick(Math.max(0, Math.min(attention.T - 1, i + move[0])), Math.max(0, Math.min(attention.S - 1, Math.max(j, 0) + move[1])));
    } else if (event.key === "+" || event.key === "=") zoomBy(1.5);
    else if (event.key === "-") zoomBy(1 / 1.5);
    else if (event.key === "0") reset();
  });

  const zooming = d3.zoom().scaleExtent([1, 64])
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey || view.k > 1 : event.type === "touchstart" ? event.touches.length > 1 || view.k > 1 : !event.button))
    .extent(() => { const g = geometry(); return [[0, 0], [g.across, g.down]]; })
    .translateExtent([[0, 0], [1, 1]])
    .on("zoom", (event) => { view = event.transform; hideTip(); draw(); });
  const zoomed = d3.select(canvas).call(zooming).on("dblclick.zoom", null);
  function bounds() {
    const g = geometry();
    zooming.translateExtent([[0, 0], [Math.max(g.across, g.S * g.cell), Math.max(g.down, g.T * g.cell)]]);
  }
  function zoomBy(factor) { bounds(); zoomed.call(zooming.scaleBy, factor); }
  function reset() { zoomed.call(zooming.transform, d3.zoomIdentity); }

  const tools = [["−", "Zoom out", () => zoomBy(1 / 1.5)], ["+", "Zoom in", () => zoomBy(1.5)], ["fit", "Show all", reset]].map(([text, name, act]) =>
    el("button", { type: "button", class: "quiet", "aria-label": name, onclick: act }, text));
  return { node: canvas, tools, draw: () => { bounds(); draw(); } };
}

/** Rows of weights as an image, a pixel a cell or the largest of a few; rows that are not computed yet stay empty. */
function painted(seen, { left, columns, rows, step }, S) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer), ramp = sharePixels();
  seen.forEach((row, y) => {
    const line = y * columns;
    if (!row) { pixels.fill(ramp[0], line, line + columns); return; }
    for (let x = 0, j = left; x < columns; x++, j += step) {
      let most = row[j];
      for (let n = 1; n < step && j + n < S; n++) if (row[j + n] > most) most = row[j + n];
      pixels[line + x] = ramp[Math.min(255, Math.round(255 * Math.sqrt(most)))];
    }
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The legend of shares. */
export function shareLegend() {
  const ticks = [0, 0.01, 0.1, 0.25, 0.5, 1], wide = 44;
  return svg("svg", { class: "legend", width: ticks.length * wide, height: 30, role: "img", "aria-label": "Shades from weight 0 to weight 1; shade grows with the root of the weight" },
    ticks.map((share, n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: shareColour(share).formatHex() }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, percent(share).replace(".0%", "%")),
    ]));
}
