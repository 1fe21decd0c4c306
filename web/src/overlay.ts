// The picture on a canvas, and what is looked at laid over it.

import type { Page } from "./page.ts";
import type { ImageEntry } from "./core/payload.ts";
import { svg } from "./dom.ts";
import { percent } from "./core/numbers.ts";
import { fitted, cells, drawCells, pen } from "./canvas.ts";

const FRAME: [string, number][] = [
  ["#10151d", 4],
  ["#ffffff", 2],
]; // around the chosen patch, to be seen on any picture
const HUE = "#ff6a00",
  STRONGEST = 0.85; // over the patch that is looked at most

/** A picture of the page, as its entry tells of it and as a canvas of its own pixels. */
export interface Picture {
  page: Page;
  entry: ImageEntry;
  image: HTMLCanvasElement;
}

/** Rows and columns of patches. */
export function gridOf(page: Page, { sequence }: ImageEntry): [number, number] {
  return page.payload.sequences[sequence].grid ?? [1, 1];
}

/** The legend of the hue: from nothing to the weight of the strongest patch. */
export function hueLegend(most: number) {
  const steps = [0, 0.1, 0.25, 0.5, 1],
    wide = 56;
  return svg(
    "svg",
    {
      class: "legend",
      width: steps.length * wide,
      height: 30,
      role: "img",
      "aria-label": `The more orange, the more weight: from 0 to ${percent(most)}, growing with the root`,
    },
    steps.map((share, n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: "#808080" }),
      svg("rect", {
        x: n * wide,
        y: 2,
        width: wide,
        height: 8,
        fill: HUE,
        "fill-opacity": STRONGEST * Math.sqrt(share),
      }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, share ? percent(share * most) : "0%"),
    ]),
  );
}

/** The picture as a canvas of its own pixels, moved by (dx, dy) with nothing where it came from. */
export function pixels(page: Page, picture: ImageEntry, dx = 0, dy = 0): HTMLCanvasElement {
  const {
      shape: [H, W],
      data,
    } = page.open(picture.pixels),
    [r, g, b] = picture.outside,
    none = { r, g, b };
  return cells(W, H, (x, y) => {
    const from = ((y - dy) * W + (x - dx)) * 3;
    return y - dy < 0 || y - dy >= H || x - dx < 0 || x - dx >= W
      ? none
      : { r: data[from], g: data[from + 1], b: data[from + 2] };
  });
}

/** The same picture in grey, its contrast halved: a hue laid over it is then seen on dark and on light alike. */
function greyed(image: HTMLCanvasElement): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = pen(canvas, true);
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  for (let n = 0; n < pixels.data.length; n += 4) {
    const grey = 64 + (0.299 * pixels.data[n] + 0.587 * pixels.data[n + 1] + 0.114 * pixels.data[n + 2]) / 2;
    pixels.data[n] = pixels.data[n + 1] = pixels.data[n + 2] = grey;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

/** Draw the picture; with shares (one a patch) in grey, and the more weight a patch has, the more of the hue. */
export function overlaid(
  canvas: HTMLCanvasElement,
  { page, entry, image }: Picture,
  side: number,
  shares: number[] | null,
  { grid = false, chosen = -1 }: { grid?: boolean; chosen?: number } = {},
): void {
  const {
      shape: [H, W],
    } = page.open(entry.pixels),
    height = Math.round((side * H) / W),
    context = fitted(canvas, side, height);
  const [rows, columns] = gridOf(page, entry),
    wide = side / columns,
    tall = height / rows;
  drawCells(context, shares ? greyed(image) : image, 0, 0, side, height);
  if (shares) {
    const most = Math.max(1e-9, ...shares);
    context.fillStyle = HUE;
    shares.forEach((share, n) => {
      context.globalAlpha = STRONGEST * Math.sqrt(share / most);
      context.fillRect((n % columns) * wide, Math.floor(n / columns) * tall, wide, tall);
    });
    context.globalAlpha = 1;
  }
  if (grid) {
    context.strokeStyle = "rgba(127,127,127,0.55)";
    context.lineWidth = 0.5;
    for (let n = 1; n < columns; n++) context.strokeRect(n * wide, -1, 0, height + 2);
    for (let n = 1; n < rows; n++) context.strokeRect(-1, n * tall, side + 2, 0);
  }
  for (const [ink, thick] of chosen >= 0 ? FRAME : []) {
    context.strokeStyle = ink;
    context.lineWidth = thick;
    context.strokeRect((chosen % columns) * wide + 2, Math.floor(chosen / columns) * tall + 2, wide - 4, tall - 4);
  }
}
