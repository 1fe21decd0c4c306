// The stream through a block: each part's output is added to it, and in a post-norm block the sum is normalised.

import type { BlockStep, NormEntry } from "./payload.ts";
import type { Open } from "./tensors.ts";

const ROUNDING = 2 ** -24; // of a number in 32 bits, as a share of it

/** What a norm does to one vector: (x - mean) / root · gain + shift; the mean is 0 for an RMS norm. */
export interface Normed {
  mean: number;
  root: number; // of the variance, or of the mean square, + eps
  gain: ArrayLike<number> | null;
  shift: ArrayLike<number> | null;
  values: Float64Array;
  doubts: Float64Array;
}

export interface ChainStep {
  part: BlockStep["part"];
  added: Float64Array; // of the first: what enters
  sum: Float64Array;
  normed: Normed | null;
  stream: Float64Array; // after this step
  doubts: Float64Array; // how far each number of the sum may be from PyTorch's, which adds in 32 bits
}

export function normalised(
  x: ArrayLike<number>,
  { kind, eps }: Pick<NormEntry, "kind" | "eps">,
  gain: ArrayLike<number> | null,
  shift: ArrayLike<number> | null,
  doubts: ArrayLike<number> | null = null,
): Normed {
  const D = x.length,
    values = new Float64Array(D),
    after = new Float64Array(D);
  let mean = 0,
    square = 0;
  if (kind === "layer") for (let d = 0; d < D; d++) mean += x[d] / D;
  for (let d = 0; d < D; d++) square += (x[d] - mean) ** 2 / D;
  const root = Math.sqrt(square + eps);
  for (let d = 0; d < D; d++) {
    const scale = gain ? gain[d] : 1;
    values[d] = ((x[d] - mean) / root) * scale + (shift ? shift[d] : 0);
    after[d] = Math.abs(scale) * ((doubts ? doubts[d] : 0) / root + 2 * ROUNDING) + 2 * ROUNDING * Math.abs(values[d]);
  }
  return { mean, root, gain, shift, values, doubts: after };
}

/** Every step of a block for the token at place `t`. */
export function chainOf(steps: BlockStep[], t: number, open: Open): ChainStep[] {
  const found: ChainStep[] = [];
  let stream: Float64Array = new Float64Array(),
    before: Float64Array = new Float64Array(); // the doubts of the stream
  for (const { part, out, norm } of steps) {
    const { shape, data } = open(out),
      D = shape[shape.length - 1],
      added = Float64Array.from(data.subarray(t * D, (t + 1) * D)),
      sum = part === "input" ? added : added.map((value, d) => value + stream[d]),
      doubts = sum.map((value, d) => (part === "input" ? 0 : before[d] + ROUNDING * Math.abs(value))),
      normed = norm && normalised(sum, norm, open(norm.gain)?.data ?? null, open(norm.shift)?.data ?? null, doubts);
    stream = normed ? normed.values : sum;
    before = normed ? normed.doubts : doubts;
    found.push({ part, added, sum, normed, stream, doubts });
  }
  return found;
}
