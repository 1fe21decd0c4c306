// Attention over training: looks at one input by step, and which pattern a head has at each of them.

import type { TimeLapseEntry } from "./payload.ts";
import type { Numbers, Open } from "./tensors.ts";

/** One head's weights at one step. */
export interface Grid {
  T: number;
  S: number;
  at: (i: number, j: number) => number;
}

export function gridOf(open: Open, lapse: TimeLapseEntry, step: number, name: string, head: number): Grid | null {
  const stored = lapse.looks[step].weights[name];
  if (!stored) return null;
  const { shape, data } = open(stored),
    [heads, T, S] = shape,
    numbers: Numbers = data,
    from = Math.min(head, heads - 1) * T * S;
  return { T, S, at: (i, j) => numbers[from + i * S + j] };
}

export interface Pattern {
  name: string;
  kinds: ("self" | "cross")[];
  /** Its share, 0 to 1, of a head's weights; null where the tokens have no place for it. */
  share: (grid: Grid, queries: string[], keys: string[]) => number | null;
}

function mean(values: number[]): number | null {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

const over = (count: number, from: number, value: (i: number) => number) =>
  mean(Array.from({ length: Math.max(0, count - from) }, (_, n) => value(n + from)));

export const PATTERNS: Pattern[] = [
  {
    name: "largest weight",
    kinds: ["self", "cross"],
    share: ({ T, S, at }) => over(T, 0, (i) => Math.max(...Array.from({ length: S }, (_, j) => at(i, j)))),
  },
  { name: "token before", kinds: ["self"], share: ({ T, at }) => over(T, 1, (i) => at(i, i - 1)) },
  { name: "itself", kinds: ["self"], share: ({ T, S, at }) => over(Math.min(T, S), 0, (i) => at(i, i)) },
  { name: "first token", kinds: ["self", "cross"], share: ({ T, at }) => over(T, 1, (i) => at(i, 0)) },
  { name: "last token", kinds: ["self", "cross"], share: ({ T, S, at }) => over(T, 0, (i) => at(i, S - 1)) },
  {
    // Olsson et al. 2022: what came after an earlier occurrence of the same token
    name: "induction",
    kinds: ["self"],
    share: ({ T, at }, tokens) =>
      mean(
        Array.from({ length: T }, (_, i) => {
          const after = Array.from({ length: i }, (_, k) => k).filter((k) => tokens[k] === tokens[i] && k + 1 < i);
          return after.length ? after.reduce((sum, k) => sum + at(i, k + 1), 0) : -1;
        }).filter((share) => share >= 0),
      ),
  },
];

export interface HeadRow {
  index: number; // of the attention in the time-lapse
  head: number;
  shares: (number | null)[]; // by step
}

/** How much of each head's weights a pattern has at each step. */
export function patternRows(
  open: Open,
  lapse: TimeLapseEntry,
  pattern: Pattern,
  heads: (name: string) => number,
): HeadRow[] {
  return lapse.attentions.flatMap(({ name, kind, queries, keys }, index) =>
    pattern.kinds.includes(kind)
      ? Array.from({ length: heads(name) }, (_, head) => ({
          index,
          head,
          shares: lapse.looks.map(({ sequences }, step) => {
            const grid = gridOf(open, lapse, step, name, head);
            return grid && pattern.share(grid, sequences[queries] ?? [], sequences[keys] ?? []);
          }),
        })).filter(({ shares }) => shares.some((share) => share !== null))
      : [],
  );
}

/** The first step from which on a head has more than half of its weights in a pattern; null if it does not end so. */
export function learnedAt(shares: (number | null)[], steps: number[]): number | null {
  let from: number | null = null;
  shares.forEach((share, n) => {
    if ((share ?? 0) <= 0.5) from = null;
    else from ??= steps[n];
  });
  return from;
}
