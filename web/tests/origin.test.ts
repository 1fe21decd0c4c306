import assert from "node:assert/strict";
import { test } from "node:test";
import { largestProducts, numberName, productsOf, valueOf } from "../src/core/origin.ts";
import { openerOf } from "../src/core/tensors.ts";
import { numbers } from "./numbers.ts";

test("a component and a logit are what PyTorch has: the sum of their products, rotated where that is done", () => {
  for (const { entries } of numbers.origins)
    for (const entry of entries) {
      const open = openerOf(entry.tensors),
        sums = entry.rows.map((row) => productsOf(row, open));
      for (const [n, { out }] of entry.rows.entries()) {
        assert.ok(sums[n].doubt <= 1e-6 * Math.max(1, Math.abs(out)));
        assert.equal(sums[n].doubt, Math.abs(sums[n].total - out));
      }
      const value = valueOf(
        entry,
        sums.map(({ total }) => total),
      );
      assert.ok(Math.abs(value - entry.value) <= 1e-6 * Math.max(1, Math.abs(entry.value)));
    }
  const [rotary, learned] = numbers.origins.map(({ entries }) => entries[0].rows.length);
  assert.deepEqual([rotary, learned], [2, 1]);
});

test("the largest products and the others add up to all of them, and each number has a name of its own", () => {
  const all = [0.5, -3, 2, 0, -0.25].map((product, d) => ({ d, x: 1, w: product, product })),
    { shown, others, rest } = largestProducts(all, 2);
  assert.deepEqual(
    shown.map(({ d }) => d),
    [1, 2],
  );
  assert.equal(others, 3);
  assert.equal(rest, 0.25);
  assert.equal(largestProducts(all, 9).others, 0);
  const number = { part: "q", token: 3, index: 0, attention: "a", head: 1, query: 3 } as const;
  assert.equal(numberName(number), numberName({ ...number, query: 0 }));
  assert.notEqual(numberName({ ...number, part: "k" }), numberName({ ...number, part: "k", query: 0 }));
  assert.notEqual(numberName(number), numberName({ ...number, index: 1 }));
});
