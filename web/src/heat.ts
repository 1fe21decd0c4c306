// A small matrix with labels, to stand beside others: rows down, columns across, one cell chosen.

import { el, shortened } from "./dom.ts";
import { cells, drawCells, fitted } from "./canvas.ts";
import { hideTip, tip } from "./tips.ts";
import { hex, type Colour } from "./core/colour.ts";
import { ticks } from "./core/layout.ts";

export interface Heat {
  label: string; // for assistive technology
  rows: string[];
  columns: string[];
  colour: (row: number, column: number) => Colour;
  chosen: { row: number; column: number };
  lines: (row: number, column: number) => string[];
  pick: (row: number, column: number) => void;
}

const LETTER = 7, // pixels, about
  MOST = 34; // of a cell's side
const ROOM = { rows: 14, columns: 9 }; // letters of a label

export function heat() {
  const canvas = el("canvas", { role: "img", tabindex: 0, class: "heat" });
  let told: Heat | null = null,
    place = { left: 0, top: 0, wide: 1, high: 1 };

  /** Draw into this width; `tall` makes cells as wide as there is room for, whatever their height. */
  function draw(next: Heat, width: number, tall: number | null = null): void {
    told = next;
    const { rows, columns, chosen } = next,
      left = room(rows, ROOM.rows) + 8,
      top = room(columns, ROOM.columns) + 12,
      wide = Math.max(2, Math.min(tall === null ? MOST : 64, (width - left) / columns.length)),
      high = tall ?? Math.min(wide, Math.max(2, 420 / rows.length)),
      side = tall === null ? Math.min(wide, high) : wide;
    place = { left, top, wide: side, high: tall ?? side };
    const context = fitted(canvas, left + side * columns.length + 2, top + place.high * rows.length + 2),
      style = getComputedStyle(document.documentElement),
      ink = style.getPropertyValue("--ink"),
      faint = style.getPropertyValue("--ink-2"),
      accent = style.getPropertyValue("--accent");
    const image = cells(columns.length, rows.length, (column, row) => next.colour(row, column));
    drawCells(context, image, left, top, side * columns.length, place.high * rows.length);
    context.font = "12px system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const n of ticks(rows.length, Math.ceil(14 / place.high), chosen.row)) {
      context.fillStyle = n === chosen.row ? accent : faint;
      context.fillText(shortened(rows[n], ROOM.rows), left - 6, top + (n + 0.5) * place.high);
    }
    for (const n of ticks(columns.length, Math.ceil(14 / side), chosen.column)) {
      context.save();
      context.translate(left + (n + 0.5) * side, top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillStyle = n === chosen.column ? accent : faint;
      context.fillText(shortened(columns[n], ROOM.columns), 0, 0);
      context.restore();
    }
    context.strokeStyle = style.getPropertyValue("--line") || hex({ r: 200, g: 200, b: 200 });
    context.strokeRect(left - 0.5, top - 0.5, side * columns.length + 1, place.high * rows.length + 1);
    context.strokeStyle = accent || ink;
    context.lineWidth = 2;
    context.strokeRect(left + chosen.column * side, top + chosen.row * place.high, side, place.high);
    canvas.setAttribute(
      "aria-label",
      `${next.label}. ${next.lines(chosen.row, chosen.column).join(", ")}. Arrow keys choose a cell.`,
    );
  }

  const cellAt = (event: MouseEvent) => {
    if (!told || event.clientX === undefined) return null;
    const box = canvas.getBoundingClientRect(),
      column = Math.floor((event.clientX - box.left - place.left) / place.wide),
      row = Math.floor((event.clientY - box.top - place.top) / place.high);
    return row >= 0 && column >= 0 && row < told.rows.length && column < told.columns.length ? { row, column } : null;
  };
  tip(canvas, (event) => {
    const cell = cellAt(event) ?? (event.clientX === undefined ? told?.chosen : null);
    return cell && told ? told.lines(cell.row, cell.column) : null;
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) told?.pick(cell.row, cell.column);
  });
  canvas.addEventListener("keydown", (event) => {
    const by = (
      { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] } as Record<
        string,
        [number, number]
      >
    )[event.key];
    if (!by || !told) return;
    event.preventDefault();
    hideTip();
    const { rows, columns, chosen } = told,
      within = (n: number, count: number) => Math.max(0, Math.min(count - 1, n));
    told.pick(within(chosen.row + by[0], rows.length), within(chosen.column + by[1], columns.length));
  });
  return { node: canvas, draw };
}

function room(labels: string[], letters: number): number {
  return LETTER * Math.min(letters, Math.max(1, ...labels.map((label) => [...label].length)));
}
