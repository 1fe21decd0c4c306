// Where a number comes from: the products of an input vector with one row of a weight matrix, their sum, and what follows.

import type { NumberChoice, OriginEntry, OriginRow } from "./payload.ts";
import type { Open } from "./tensors.ts";

export interface Product {
  d: number;
  x: number;
  w: number;
  product: number;
}

export interface Products {
  all: Product[]; // by dimension
  total: number; // with the bias
  doubt: number; // how far that is from PyTorch's, which adds in another order and in fewer bits
}

/** A number by its name: no two numbers of a page have the same. */
export function numberName({ part, attention, head, query, token, index }: NumberChoice): string {
  return [part, attention, head, part === "k" || part === "v" ? query : "", token, index].join(" ");
}

export function productsOf({ x, w, bias, out }: OriginRow, open: Open): Products {
  const vector = open(x).data,
    all = Array.from(open(w).data, (weight, d) => ({ d, x: vector[d], w: weight, product: vector[d] * weight })),
    total = all.reduce((sum, { product }) => sum + product, bias ?? 0);
  return { all, total, doubt: Math.abs(total - out) };
}

/** The largest products by size, and the sum of the others. */
export function largestProducts(all: Product[], count: number): { shown: Product[]; others: number; rest: number } {
  const sorted = [...all].sort((a, b) => Math.abs(b.product) - Math.abs(a.product)),
    left = sorted.slice(count);
  return {
    shown: sorted.slice(0, count),
    others: left.length,
    rest: left.reduce((sum, { product }) => sum + product, 0),
  };
}

/** What the sum of a row is in the number: normalised, then multiplied by its share in the rotation. */
function partOf({ factor, norm }: OriginRow, sum: number): number {
  return factor * (norm ? ((sum - norm.mean) / norm.root) * norm.gain + norm.shift : sum);
}

/** The number, from the sums of its rows. */
export function valueOf({ rows }: OriginEntry, sums: number[]): number {
  return rows.reduce((all, row, n) => all + partOf(row, sums[n]), 0);
}
