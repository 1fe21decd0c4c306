// From logits to probabilities, and what temperature, top-k and top-p leave of them, as `headway generate` does it.

export interface Sampling {
  temperature: number; // 0: only the likeliest is left
  top_k: number; // 0: all
  top_p: number;
}

export interface Drawn {
  shares: Float64Array; // of all tokens, after the temperature; they add up to 1
  kept: boolean[]; // what top-k, then top-p leave
  left: Float64Array; // the shares of what is left, made to add up to 1
}

/** exp(logit / temperature), each as its share of the sum over all. */
export function softmax(logits: ArrayLike<number>, temperature = 1): Float64Array {
  const out = new Float64Array(logits.length);
  let most = -Infinity,
    total = 0;
  for (let n = 0; n < logits.length; n++) most = Math.max(most, logits[n]);
  for (let n = 0; n < logits.length; n++) total += out[n] = Math.exp((logits[n] - most) / temperature);
  for (let n = 0; n < logits.length; n++) out[n] /= total;
  return out;
}

export function logSumExp(logits: ArrayLike<number>): number {
  let most = -Infinity,
    total = 0;
  for (let n = 0; n < logits.length; n++) most = Math.max(most, logits[n]);
  for (let n = 0; n < logits.length; n++) total += Math.exp(logits[n] - most);
  return most + Math.log(total);
}

/** Indices of the `count` largest, largest first. */
export function largest(values: ArrayLike<number>, count: number): number[] {
  const found: number[] = [];
  for (let n = 0; n < values.length; n++) {
    if (found.length === count && values[n] <= values[found[count - 1]]) continue;
    let at = found.length;
    while (at > 0 && values[found[at - 1]] < values[n]) at--;
    found.splice(at, 0, n);
    if (found.length > count) found.pop();
  }
  return found;
}

/** What a draw chooses from: temperature, then the top_k likeliest, then the fewest of these that hold top_p. */
export function drawnFrom(logits: ArrayLike<number>, { temperature, top_k, top_p }: Sampling): Drawn {
  if (temperature === 0) {
    const [best] = largest(logits, 1),
      shares = softmax(logits),
      left = new Float64Array(logits.length);
    left[best] = 1;
    return { shares, kept: Array.from(left, (share) => share === 1), left };
  }
  const shares = softmax(logits, temperature),
    kept = new Array<boolean>(logits.length).fill(true);
  if (top_k > 0 && top_k < logits.length) keepFrom(kept, logits, kth(logits, top_k));
  if (top_p < 1) {
    const among = shares.map((share, n) => (kept[n] ? share : 0));
    keepFrom(kept, among, threshold(among, top_p));
  }
  let total = 0;
  kept.forEach((is, n) => (total += is ? shares[n] : 0));
  return { shares, kept, left: shares.map((share, n) => (kept[n] ? share / total : 0)) };
}

function keepFrom(kept: boolean[], values: ArrayLike<number>, least: number): void {
  for (let n = 0; n < kept.length; n++) kept[n] &&= values[n] >= least;
}

function kth(values: ArrayLike<number>, k: number): number {
  return Float64Array.from(values).sort()[values.length - k];
}

/** The smallest share among the fewest, largest first, that hold at least `part` of the whole. */
function threshold(shares: Float64Array, part: number): number {
  const sorted = shares.slice().sort(),
    total = shares.reduce((sum, share) => sum + share, 0);
  let sum = 0;
  for (let n = sorted.length - 1; n >= 0; n--) {
    sum += sorted[n] / total;
    if (sum >= part) return sorted[n];
  }
  return sorted[0];
}
