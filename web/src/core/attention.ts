// Attention, computed here from the run's own queries, keys and values: softmax(scale·q·k + position, where allowed)·v.

import { doubt, type Numbers, type Open, type Tensor } from "./tensors.ts";
import type { AttentionEntry, Position } from "./payload.ts";

const ROUNDING = 1e-6; // of a sum in 32 bits, as a share of the sum of its parts' sizes

interface Parts {
  q: Tensor;
  k: Tensor;
  v: Tensor;
  mask: Tensor | null;
  energy: Tensor | null;
  others: { rows: number[]; q: Tensor; k: Tensor; v: Tensor } | null;
  table: Tensor | null;
  keys: Tensor | null;
  values: Tensor | null;
  T: number;
  E: number;
  S: number;
  W: number;
  share: number; // heads that read the same keys
  maskHeads: number;
}

/** Where a query's numbers are. */
interface Place {
  q: Numbers;
  at: number;
  k: Numbers;
  v: Numbers;
  group: number;
  tensors: { q: Tensor; k: Tensor; v: Tensor };
  row: number;
}

/** What a query makes of one key, and how far each number may be from PyTorch's. */
export interface KeyStory {
  j: number;
  dot: number;
  scaled: number;
  position: number;
  allowed: boolean;
  score: number;
  weight: number;
  doubts: { dot: number; scaled: number; position: number; score: number; weight: number };
}
export interface Story {
  keys: KeyStory[];
  scale: number;
  out: Float64Array;
  outDoubt: number;
}

/** One attention of the run: H heads from T queries to S keys. */
export class Attention {
  readonly heads: number;
  private parts: Parts | null = null;

  constructor(
    readonly entry: AttentionEntry,
    private readonly open: Open,
  ) {
    this.heads = entry.heads;
  }

  ready(): Parts {
    if (this.parts) return this.parts;
    const { entry, open } = this,
      position = entry.position,
      shaw = position?.kind === "shaw" ? position : null;
    const q = open(entry.q),
      k = open(entry.k),
      v = open(entry.v),
      mask = open(entry.mask);
    this.parts = {
      q,
      k,
      v,
      mask,
      energy: open(entry.energy),
      others: entry.others && {
        rows: entry.others.rows,
        q: open(entry.others.q),
        k: open(entry.others.k),
        v: open(entry.others.v),
      },
      table: open(position?.kind === "t5" ? position.table : null),
      keys: open(shaw?.keys),
      values: open(shaw?.values),
      T: q.shape[1],
      E: q.shape[2],
      S: k.shape[1],
      W: v.shape[2],
      share: entry.heads / entry.groups,
      maskHeads: mask && mask.shape.length === 3 ? mask.shape[0] : 1,
    };
    return this.parts;
  }

  get T(): number {
    return this.ready().T;
  }
  get S(): number {
    return this.ready().S;
  }
  get E(): number {
    return this.ready().E;
  }

  /** Where a query's numbers are: its own, or those of Longformer's global tokens. */
  from(head: number, i: number): Place {
    const p = this.ready(),
      group = Math.floor(head / p.share);
    const other = p.others ? p.others.rows.indexOf(i) : -1;
    const { q, k, v } = other < 0 || !p.others ? p : p.others,
      row = other < 0 || !p.others ? head * p.T + i : head * p.others.rows.length + other;
    return {
      q: q.data,
      at: row * p.E,
      k: k.data,
      v: v.data,
      group: other < 0 ? group : head,
      tensors: { q, k, v },
      row,
    };
  }

  allowed(head: number, i: number, j: number): boolean {
    const { mask, maskHeads, T, S } = this.ready();
    return !mask || mask.data[((maskHeads > 1 ? head : 0) * T + i) * S + j] === 1;
  }

  /** q·k, or w·tanh(q + k) where the score is additive. */
  dot(place: Place, j: number): number {
    const { E, S, energy } = this.ready(),
      { q, at, k, group } = place,
      there = (group * S + j) * E;
    let sum = 0;
    if (energy) for (let e = 0; e < E; e++) sum += energy.data[e] * Math.tanh(q[at + e] + k[there + e]);
    else for (let e = 0; e < E; e++) sum += q[at + e] * k[there + e];
    return sum;
  }

  /** How far q·k may be from PyTorch's: by how q and k are stored, and by the order in which 32 bits are added. */
  dotDoubt(place: Place, j: number): number {
    const { E, S, energy } = this.ready(),
      { q, at, k, group, tensors, row } = place,
      there = group * S + j;
    let ofQuery = 0,
      ofKey = 0,
      size = 0;
    for (let e = 0; e < E; e++) {
      const a = energy ? Math.abs(energy.data[e]) : Math.abs(k[there * E + e]),
        b = energy ? Math.abs(energy.data[e]) : Math.abs(q[at + e]);
      ofQuery += a;
      ofKey += b;
      size += energy ? a : a * b;
    }
    return ofQuery * doubt(tensors.q, row) + ofKey * doubt(tensors.k, there) + ROUNDING * size;
  }

  /** How far the scores of one query may be from PyTorch's, at most; its weights then by twice that share of them. */
  scoreDoubt(head: number, i: number): number {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = Math.abs(this.entry.scale[head]);
    let most = 0;
    for (let j = 0; j < S; j++)
      if (this.allowed(head, i, j))
        most = Math.max(most, scale * this.dotDoubt(place, j) + this.positionDoubt(head, i, j) + ROUNDING);
    return most;
  }

  /** How far a weight may be from PyTorch's. */
  weightDoubt(head: number, i: number, weight: number): number {
    return this.entry.hard ? 0 : weight * Math.expm1(2 * this.scoreDoubt(head, i));
  }

  /** What the distance from i to j adds to the score; a rotation is in q and k already. */
  position(head: number, i: number, j: number): number {
    const told = this.entry.position;
    if (!told || told.kind === "rotary") return 0;
    if (told.kind === "alibi") return -told.slopes[head] * Math.abs(i - j);
    const { table, keys, q, T, E } = this.ready();
    if (table) return table.data[head * table.shape[1] + slotOf(table.shape[1], i, j)];
    if (!keys) return 0;
    const slot = slotOf(keys.shape[0], i, j);
    let sum = 0;
    for (let e = 0; e < E; e++) sum += q.data[(head * T + i) * E + e] * keys.data[slot * E + e];
    return this.entry.scale[head] * sum;
  }

  /** How far that term may be from PyTorch's: Shaw's is a product with a query as it is stored. */
  positionDoubt(head: number, i: number, j: number): number {
    const { keys, q, T, E } = this.ready();
    if (!keys) return 0;
    const slot = slotOf(keys.shape[0], i, j),
      row = head * T + i,
      ofQuery = doubt(q, row),
      ofKey = doubt(keys, slot);
    let sum = 0;
    for (let e = 0; e < E; e++) {
      const a = Math.abs(q.data[row * E + e]),
        b = Math.abs(keys.data[slot * E + e]);
      sum += b * ofQuery + a * ofKey + ROUNDING * a * b;
    }
    return Math.abs(this.entry.scale[head]) * sum;
  }

  /** (S,) the weights of one query. */
  weights(head: number, i: number): Float32Array {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = this.entry.scale[head],
      row = new Float32Array(S);
    const scores = new Float64Array(S).fill(-Infinity);
    let most = -Infinity,
      total = 0;
    for (let j = 0; j < S; j++) {
      if (!this.allowed(head, i, j)) continue;
      scores[j] = scale * this.dot(place, j) + this.position(head, i, j);
      if (scores[j] > most) most = scores[j];
    }
    if (most === -Infinity) return row; // a query that may look nowhere gets nothing
    if (this.entry.hard) {
      row[scores.indexOf(most)] = 1;
      return row;
    }
    for (let j = 0; j < S; j++) total += scores[j] = Math.exp(scores[j] - most);
    for (let j = 0; j < S; j++) row[j] = scores[j] / total;
    return row;
  }

  /** (W,) the values, weighted and added. */
  mixed(head: number, i: number, weights: Float32Array): Float64Array {
    const { S, W, values } = this.ready(),
      { v, group } = this.from(head, i);
    const sum = new Float64Array(W);
    for (let j = 0; j < S; j++) {
      if (!weights[j]) continue;
      for (let e = 0; e < W; e++) sum[e] += weights[j] * v[(group * S + j) * W + e];
      if (!values) continue;
      const slot = slotOf(values.shape[0], i, j);
      for (let e = 0; e < W; e++) sum[e] += weights[j] * values.data[slot * W + e];
    }
    return sum;
  }

  /** Every step of one query's look, key by key. */
  story(head: number, i: number): Story {
    const { S } = this.ready(),
      place = this.from(head, i),
      scale = this.entry.scale[head];
    const weights = this.weights(head, i),
      spread = this.entry.hard ? 0 : Math.expm1(2 * this.scoreDoubt(head, i));
    const keys = Array.from({ length: S }, (_, j) => {
      const dot = this.dot(place, j),
        position = this.position(head, i, j),
        allowed = this.allowed(head, i, j);
      const dotted = this.dotDoubt(place, j),
        scaled = Math.abs(scale) * dotted,
        placed = this.positionDoubt(head, i, j),
        doubts = { dot: dotted, scaled, position: placed, score: scaled + placed, weight: weights[j] * spread };
      return {
        j,
        dot,
        scaled: scale * dot,
        position,
        allowed,
        score: scale * dot + position,
        weight: weights[j],
        doubts,
      };
    });
    return { keys, scale, out: this.mixed(head, i, weights), outDoubt: this.outDoubt(head, i, weights, spread) };
  }

  /** How far the sum of the weighted values may be from PyTorch's, in any dimension. */
  outDoubt(head: number, i: number, weights: Float32Array, spread: number): number {
    const { S, W } = this.ready(),
      { v, group, tensors } = this.from(head, i);
    let sum = 0;
    for (let j = 0; j < S; j++) {
      if (!weights[j]) continue;
      const row = group * S + j;
      let size = 0;
      for (let e = 0; e < W; e++) size = Math.max(size, Math.abs(v[row * W + e]));
      sum += weights[j] * (doubt(tensors.v, row) + (spread + ROUNDING) * size);
    }
    return sum;
  }

  /** The vectors of a query and a key, and how far their numbers may be from the run's. */
  vectors(head: number, i: number, j: number) {
    const { E, S, W } = this.ready(),
      { q, at, k, v, group, tensors, row } = this.from(head, i);
    const there = (group * S + j) * E,
      value = (group * S + j) * W;
    return {
      q: q.slice(at, at + E),
      k: k.slice(there, there + E),
      v: v.slice(value, value + W),
      doubts: { q: doubt(tensors.q, row), k: doubt(tensors.k, group * S + j), v: doubt(tensors.v, group * S + j) },
    };
  }

  /** What PyTorch gave for this query, if the file keeps it: weights (S,) and output (W,). */
  reference(head: number, i: number) {
    const row = this.entry.rows.indexOf(i);
    if (row < 0) return null;
    const weights = this.open(this.entry.weights),
      out = this.open(this.entry.out),
      count = this.entry.rows.length;
    const { S, W } = this.ready(),
      at = head * count + row;
    return {
      weights: weights.data.subarray(at * S, (at + 1) * S),
      out: out.data.subarray(at * W, (at + 1) * W),
      outDoubt: doubt(out, at),
    };
  }

  /** The largest difference between what is computed here and what PyTorch gave, over one head's kept rows.
   *
   * Outputs above 1 are compared by their share of the largest: 32 bits keep so many figures, not so many places. */
  difference(head: number): number {
    let most = 0;
    for (const i of this.entry.rows) {
      const told = this.reference(head, i);
      if (!told) continue;
      const weights = this.weights(head, i),
        out = this.mixed(head, i, weights);
      for (let j = 0; j < weights.length; j++) most = larger(most, Math.abs(weights[j] - told.weights[j]));
      const size = Math.max(1, ...Array.from(told.out, Math.abs));
      for (let e = 0; e < out.length; e++) most = larger(most, Math.abs(out[e] - told.out[e]) / size);
    }
    return most;
  }
}

/** The row of a table of relative positions, of `count` distances from the farthest back to the farthest ahead. */
function slotOf(count: number, i: number, j: number): number {
  const reach = (count - 1) / 2;
  return Math.max(-reach, Math.min(reach, j - i)) + reach;
}

function larger(a: number, b: number): number {
  return b > a || Number.isNaN(b) ? b : a; // a NaN must show
}

/** Pairs of features turned back (or on) by so many positions: what a rotation did, undone. */
export function turned(
  vector: ArrayLike<number>,
  by: number,
  { base, layout }: Extract<Position, { kind: "rotary" }>,
): Float64Array {
  const E = vector.length,
    half = E / 2,
    out = new Float64Array(E);
  for (let p = 0; p < half; p++) {
    const angle = by * base ** ((-2 * p) / E),
      cos = Math.cos(angle),
      sin = Math.sin(angle);
    const [a, b] = layout === "interleaved" ? [2 * p, 2 * p + 1] : [p, p + half];
    out[a] = vector[a] * cos - vector[b] * sin;
    out[b] = vector[a] * sin + vector[b] * cos;
  }
  return out;
}

/** What kind of looking a head does, from the rows that the file keeps: means over them.
 *
 * Places of two texts cannot be compared: a head that looks at another text has a coverage (the share of its keys that
 * are some query's first choice) instead of a distance. */
export interface HeadStatistics {
  entropy: number;
  first: number;
  last: number;
  rows: number; // that the means are over
  of: number;
  coverage?: number;
  distance?: number;
  self?: number;
  before?: number;
  doubts: { entropy: number; distance: number; share: number }; // how far each may be from PyTorch's
}

export function headStatistics(attention: Attention, head: number): HeadStatistics {
  const rows = attention.entry.rows.length ? attention.entry.rows : [0],
    across = attention.entry.keys !== attention.entry.queries || attention.entry.kind === "cross",
    sums = { entropy: 0, distance: 0, self: 0, before: 0, first: 0, last: 0 },
    favourites = new Set<number>(),
    doubts = { entropy: 0, distance: 0, share: 0 };
  for (const i of rows) {
    const weights = attention.weights(head, i);
    const spread = attention.weightDoubt(head, i, 1) / rows.length;
    weights.forEach((weight, j) => {
      if (weight > 0) {
        sums.entropy -= weight * Math.log(weight);
        doubts.entropy += spread * weight * (1 - Math.log(weight));
      }
      sums.distance += weight * Math.abs(i - j);
      doubts.distance += spread * weight * Math.abs(i - j);
    });
    doubts.share += spread;
    sums.self += weights[i] || 0;
    sums.before += weights[i - 1] || 0;
    sums.first += weights[0];
    sums.last += weights[weights.length - 1];
    favourites.add(weights.indexOf(Math.max(...weights)));
  }
  const mean = (sum: number) => sum / rows.length,
    [entropy, first, last] = [sums.entropy, sums.first, sums.last].map(mean),
    [distance, self, before] = [sums.distance, sums.self, sums.before].map(mean),
    shared = { entropy, first, last, rows: rows.length, of: attention.T, doubts };
  return across ? { ...shared, coverage: favourites.size / attention.S } : { ...shared, distance, self, before };
}
