// Finished hypotheses of a beam search, ranked by another length penalty.

import type { TraceEntry, TraceLine } from "./payload.ts";

export interface Ranked extends TraceLine {
  index: number; // among the lines of the search
  score: number;
}

/** Wu et al. 2016, eq. 14 ("gnmt"), or the mean log-probability of a token for alpha = 1. */
export function penalty(length: number, alpha: number, kind: string): number {
  return kind === "gnmt" ? ((5 + length) / 6) ** alpha : length ** alpha;
}

/** Hypotheses with their scores under this penalty, best first; equal ones stay in their order. */
export function ranked(trace: Pick<TraceEntry, "lines" | "penalty">, alpha: number): Ranked[] {
  return trace.lines
    .map((line, index) => ({
      ...line,
      index,
      score: line.log_probability / penalty(line.length, alpha, trace.penalty),
    }))
    .sort((a, b) => b.score - a.score || a.index - b.index);
}
