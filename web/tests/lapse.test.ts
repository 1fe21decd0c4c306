import assert from "node:assert/strict";
import { test } from "node:test";
import { learnedAt, PATTERNS, type Grid } from "../src/core/lapse.ts";

const grid = (rows: number[][]): Grid => ({ T: rows.length, S: rows[0].length, at: (i, j) => rows[i][j] });
const share = (name: string, rows: number[][], tokens: string[]) =>
  PATTERNS.find((each) => each.name === name)?.share(grid(rows), tokens, tokens);

test("patterns of a head are the shares that its weights have there", () => {
  const before = [[1, 0, 0], [0.9, 0.1, 0], [0, 0.7, 0.3]], // prettier-ignore
    tokens = ["a", "b", "c"];
  assert.ok(Math.abs((share("token before", before, tokens) ?? 0) - 0.8) < 1e-9);
  assert.ok(Math.abs((share("itself", before, tokens) ?? 0) - 1.4 / 3) < 1e-9);
  assert.ok(Math.abs((share("largest weight", before, tokens) ?? 0) - 2.6 / 3) < 1e-9);
  assert.ok(Math.abs((share("first token", before, tokens) ?? 0) - 0.45) < 1e-9);
  assert.equal(share("induction", before, tokens), null);
  const again = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0.75, 0.25, 0]]; // prettier-ignore
  assert.equal(share("induction", again, ["a", "b", "c", "a"]), 0.75);
});

test("a pattern is learned at the step from which on it stays", () => {
  assert.equal(learnedAt([0.1, 0.6, 0.4, 0.7, 0.9], [0, 1, 2, 4, 8]), 4);
  assert.equal(learnedAt([0.9, 0.4], [0, 1]), null);
  assert.equal(learnedAt([null, 0.9], [0, 1]), 1);
});
