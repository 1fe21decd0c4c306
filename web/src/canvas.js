// Canvases as fine as the screen.

/** A canvas of this size in CSS pixels, its context scaled to match the screen's own. */
export function fitted(canvas, width, height) {
  const fine = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.max(1, Math.round(width * fine));
  canvas.height = Math.max(1, Math.round(height * fine));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(fine, 0, 0, fine, 0, 0);
  return context;
}

/** An image with one pixel a cell: `colour(column, row)` gives {r, g, b}. */
export function cells(columns, rows, colour) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d"),
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

export function drawCells(context, image, x, y, width, height) {
  context.imageSmoothingEnabled = false;
  context.drawImage(image, x, y, width, height);
}

/** Give the page a turn; then go on. */
export function pause() {
  return new Promise((done) => setTimeout(done, 0));
}
