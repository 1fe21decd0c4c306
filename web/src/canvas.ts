// Canvases as fine as the screen.

import type { Colour } from "./core/colour.ts";

/** A canvas's context; `pixels` are set one by one: such a canvas stays in the memory of the processor. */
export function pen(canvas: HTMLCanvasElement, pixels = false): CanvasRenderingContext2D {
  const context = canvas.getContext("2d", { willReadFrequently: pixels });
  if (!context) throw new Error("this browser has no canvas to draw on");
  return context;
}

/** A canvas of this size in CSS pixels, its context scaled to match the screen's own. */
export function fitted(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const fine = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * fine));
  canvas.height = Math.max(1, Math.round(height * fine));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = pen(canvas);
  context.setTransform(fine, 0, 0, fine, 0, 0);
  return context;
}

/** An image with one pixel a cell: `colour(column, row)` gives {r, g, b}. */
export function cells(
  columns: number,
  rows: number,
  colour: (column: number, row: number) => Colour,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = pen(canvas, true),
    image = context.createImageData(columns, rows);
  for (let y = 0, n = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++, n += 4) {
      const { r, g, b } = colour(x, y);
      image.data[n] = r;
      image.data[n + 1] = g;
      image.data[n + 2] = b;
      image.data[n + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export function drawCells(
  context: CanvasRenderingContext2D,
  image: CanvasImageSource,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  context.imageSmoothingEnabled = false;
  context.drawImage(image, x, y, width, height);
}

/** Give the page a turn; then go on. */
export function pause(): Promise<void> {
  return new Promise((done) => setTimeout(done, 0));
}

/** A function that gives the page a turn whenever what was done since the last one took long. */
export function turns(): () => Promise<void> {
  const most = 12; // milliseconds
  let since = performance.now();
  return async () => {
    if (performance.now() - since < most) return;
    await pause();
    since = performance.now();
  };
}
