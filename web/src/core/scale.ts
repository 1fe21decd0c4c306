// Axes: where a number stands, and which numbers are written beside an axis.

export interface Scale {
  at: (value: number) => number;
  value: (at: number) => number;
  ticks: number[];
}

/** Round numbers within two bounds: steps of 1, 2 or 5 times a power of ten, about `count` of them. */
export function roundNumbers(low: number, high: number, count = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, count),
    power = 10 ** Math.floor(Math.log10(rough)),
    step = power * ([1, 2, 5, 10].find((each) => each * power >= rough * 0.999) ?? 10);
  const found: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++)
    found.push(Number((n * step).toPrecision(12)));
  return found;
}

function powers(low: number, high: number): number[] {
  const found: number[] = [],
    wide = Math.log10(high / low),
    steps = wide > 3 ? [1] : wide > 1.2 ? [1, 3] : [1, 2, 3, 5, 7];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(12));
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  return found.length > 1 ? found : roundNumbers(low, high, 4);
}

/** From the numbers `low` to `high` to the places `from` to `to`, in equal steps or in equal ratios. */
export function scaled(low: number, high: number, from: number, to: number, logarithmic = false, count = 5): Scale {
  const log = logarithmic && low > 0,
    bend = (value: number) => (log ? Math.log(Math.max(value, low)) : value),
    first = bend(low),
    size = bend(high) - first || 1;
  return {
    at: (value) => from + ((bend(value) - first) / size) * (to - from),
    value: (place) => {
      const bent = first + ((place - from) / (to - from)) * size;
      return log ? Math.exp(bent) : bent;
    },
    ticks: log ? powers(low, high) : roundNumbers(low, high, count),
  };
}
