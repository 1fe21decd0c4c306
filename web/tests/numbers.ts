// What PyTorch computed, and how near a number has to be to it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { OriginEntry, Payload } from "../src/core/payload.ts";

interface Draw {
  temperature: number;
  top_k: number;
  top_p: number;
  shares: number[];
  kept: boolean[];
}
export interface Numbers {
  logits: number[];
  log_sum_exp: number;
  draws: Draw[];
  pages: Record<string, Payload>;
  rotated: { vector: number[]; by: number; base: number; layout: "interleaved" | "halves"; out: number[] }[];
  norms: { x: number[]; gain: number[]; shift: number[]; eps: number; layer: number[]; rms: number[] }[];
  origins: { entries: OriginEntry[] }[];
  penalties: { length: number; alpha: number; kind: string; penalty: number }[];
}

export const numbers = JSON.parse(readFileSync(process.env.NUMBERS ?? "", "utf8")) as Numbers;

export function near(found: ArrayLike<number>, wanted: ArrayLike<number>, within = 1e-6): void {
  assert.equal(found.length, wanted.length);
  for (let n = 0; n < found.length; n++)
    assert.ok(Math.abs(found[n] - wanted[n]) <= within, `number ${n}: ${found[n]}, PyTorch has ${wanted[n]}`);
}
