// The payload's tensors: base64 of little-endian numbers, opened when they are first looked at.

const HALVES = new Float32Array(65536); // every number of 16 bits, by its bits
for (let bits = 0; bits < 65536; bits++) {
  const sign = bits & 0x8000 ? -1 : 1,
    exponent = (bits >> 10) & 31,
    fraction = bits & 1023;
  if (exponent === 31) HALVES[bits] = fraction ? NaN : sign * Infinity;
  else HALVES[bits] = sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function bytesOf(text) {
  const raw = atob(text),
    bytes = new Uint8Array(raw.length);
  for (let n = 0; n < raw.length; n++) bytes[n] = raw.charCodeAt(n);
  return bytes;
}

function scaled(bytes, scales, width) {
  const whole = new Int8Array(bytes.buffer),
    factors = new Float32Array(bytesOf(scales).buffer),
    out = new Float32Array(whole.length);
  for (let row = 0, n = 0; row < factors.length; row++)
    for (let d = 0; d < width; d++, n++) out[n] = whole[n] * factors[row];
  return out;
}

function halves(bits) {
  const out = new Float32Array(bits.length);
  for (let n = 0; n < bits.length; n++) out[n] = HALVES[bits[n]];
  return out;
}

function opened({ type, shape, data, scales }) {
  const bytes = bytesOf(data);
  if (type === "float32") return { shape, data: new Float32Array(bytes.buffer) };
  if (type === "float16") return { shape, data: halves(new Uint16Array(bytes.buffer)) };
  if (type === "int8") return { shape, data: scaled(bytes, scales, shape[shape.length - 1]) };
  if (type === "bit") {
    const count = shape.reduce((all, size) => all * size, 1);
    return { shape, data: Uint8Array.from({ length: count }, (_, n) => (bytes[n >> 3] >> (n & 7)) & 1) };
  }
  return { shape, data: bytes };
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
