// Two models that read the same tokens: which of their heads belong together, and how far they differ.

import type { Attention } from "./attention.ts";

/** Whether two attentions have the same tokens as queries and as keys, so that their weights can be subtracted. */
export function sameTokens(
  one: { queries: string[]; keys: string[] },
  other: { queries: string[]; keys: string[] },
): boolean {
  const same = (a: string[], b: string[]) => a.length === b.length && a.every((token, n) => token === b[n]);
  return same(one.queries, other.queries) && same(one.keys, other.keys);
}

/** The attention of another model that stands where this one stands: the same name, else the same kind and nearest depth. */
export function counterpart(own: Attention, others: Attention[]): number {
  const named = others.findIndex(({ entry }) => entry.name === own.entry.name);
  if (named >= 0) return named;
  const alike = others
    .map(({ entry }, index) => ({ entry, index }))
    .filter(({ entry }) => entry.kind === own.entry.kind && entry.label === own.entry.label);
  alike.sort((a, b) => Math.abs(a.entry.layer - own.entry.layer) - Math.abs(b.entry.layer - own.entry.layer));
  return alike[0]?.index ?? -1;
}

/** How far the weights of two heads differ: half the sum of |a − b| of a query, 0 to 1, on average over `rows`. */
export function distance(one: Attention, head: number, other: Attention, otherHead: number, rows: number[]): number {
  let sum = 0;
  for (const i of rows) {
    const a = one.weights(head, i),
      b = other.weights(otherHead, i);
    for (let j = 0; j < a.length; j++) sum += Math.abs(a[j] - b[j]) / 2;
  }
  return rows.length ? sum / rows.length : 0;
}
