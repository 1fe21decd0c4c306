import assert from "node:assert/strict";
import { test } from "node:test";
import { drawnFrom, softmax } from "../src/core/sampling.ts";

/** The least CPU time of some work, which a busy machine stretches little. */
function least(work: () => void): number {
  const times = Array.from({ length: 15 }, () => {
    const began = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(began);
    return user + system;
  });
  return Math.min(...times);
}

test("a step of a slider costs a few softmaxes, at GPT-2's vocabulary", () => {
  const logits = Float32Array.from({ length: 50257 }, (_, n) => 4 * Math.sin(n * 12.9898)),
    settings = { temperature: 0.8, top_k: 40, top_p: 0.9 };
  const one = least(() => softmax(logits)),
    whole = least(() => drawnFrom(logits, settings));
  assert.ok(whole < 20 * one, `${whole} µs, a softmax ${one} µs`);
  assert.ok(drawnFrom(logits, settings).kept.filter(Boolean).length <= 41);
});
