// Numbers as text: never more figures than are right.

/** A number for a reader: so many figures that count, fewer where the number may be off by `error`.
 *
 * The last figure printed is right to within one: half of it is rounding, and half at most is the error. */
export function figures(value: number, digits = 3, error = 0): string {
  if (!Number.isFinite(value)) return value === -Infinity ? "−∞" : String(value);
  const size = Math.abs(value);
  if (error > 0) {
    const last = Math.ceil(Math.log10(2 * error)), // 10^last is the unit of the last figure
      known = size ? Math.floor(Math.log10(size)) - last + 1 : 0;
    if (known < 1) return signed((Math.round(value / 10 ** last) * 10 ** last).toFixed(Math.max(0, -last)));
    digits = Math.min(digits, known);
  }
  return signed(
    size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 1) : value.toPrecision(digits),
  );
}

/** All that 32 bits hold of a number of ordinary size: sums of what is printed are then those of the run. */
export function decimals(value: number, error = 0): string {
  return error > 0 ? figures(value, 4, error) : signed(value.toFixed(7));
}

function signed(text: string): string {
  return text
    .replace(/^-(0(\.0*)?)$/, "$1")
    .replace("-", "−")
    .replace(/e\+?/, "e")
    .replace("e-", "e−");
}

export function percent(share: number, error = 0): string {
  if (share > 0 && share < 5e-4) return "<0.1%";
  return `${(100 * share).toFixed(error > 5e-4 ? 0 : 1)}%`;
}
