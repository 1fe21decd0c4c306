// The payload's tensors: base64 of little-endian numbers, opened when they are first looked at.

function bytesOf(text) {
  const raw = atob(text),
    bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) bytes[n] = raw.charCodeAt(n);
  return bytes;
}

/** Whole numbers times their row's scale. */
function scaled(whole, scales, width) {
  const factors = new Float32Array(bytesOf(scales).buffer),
    out = new Float32Array(whole.length);
  for (let row = 0, n = 0; row < factors.length; row++)
    for (let d = 0; d < width; d++, n++) out[n] = whole[n] * factors[row];
  return out;
}

function opened({ type, shape, data, scales }) {
  const bytes = bytesOf(data);
  if (type === "float32") return { shape, data: new Float32Array(bytes.buffer) };
  if (type === "int8" || type === "int16") {
    const whole = type === "int8" ? new Int8Array(bytes.buffer) : new Int16Array(bytes.buffer);
    return {
      shape,
      data: scaled(whole, scales, shape[shape.length - 1]),
      steps: new Float32Array(bytesOf(scales).buffer),
    };
  }
  if (type === "bit") {
    const count = shape.reduce((all, size) => all * size, 1);
    return { shape, data: Uint8Array.from({ length: count }, (_, n) => (bytes[n >> 3] >> (n & 7)) & 1) };
  }
  return { shape, data: bytes };
}

/** How far the numbers of a row may be from those of the run: half a step where they were rounded to whole steps. */
export function doubt({ steps }, row) {
  return steps ? steps[row] / 2 : 0;
}

/** A function from a tensor's name to {shape, data}; null for no name. */
export function openerOf(kept) {
  const known = new Map();
  return (name) => {
    if (name === null || name === undefined) return null;
    if (!known.has(name)) known.set(name, opened(kept[name]));
    return known.get(name);
  };
}
