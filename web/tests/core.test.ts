import assert from "node:assert/strict";
import { test } from "node:test";
import { Attention, headStatistics, turned } from "../src/core/attention.ts";
import { chainOf, normalised } from "../src/core/chain.ts";
import { contrast, inkOn, setTheme, shareColour, signedColour, spline } from "../src/core/colour.ts";
import { placed, ticks } from "../src/core/layout.ts";
import { decimals, figures, percent } from "../src/core/numbers.ts";
import { penalty, ranked } from "../src/core/ranking.ts";
import { drawnFrom, largest, logSumExp, softmax } from "../src/core/sampling.ts";
import { State, type Values } from "../src/core/state.ts";
import { doubt, opened, openerOf } from "../src/core/tensors.ts";
import { WHOLE, enlarged, moved } from "../src/core/view.ts";
import { near, numbers } from "./numbers.ts";

test("softmax and its normaliser are PyTorch's", () => {
  near([logSumExp(numbers.logits)], [numbers.log_sum_exp]);
  const { shares } = numbers.draws[0];
  near(softmax(numbers.logits), shares);
});

test("temperature, top-k and top-p leave what headway generate leaves", () => {
  for (const { shares, kept, ...sampling } of numbers.draws) {
    const found = drawnFrom(numbers.logits, sampling);
    assert.deepEqual(found.kept, kept, JSON.stringify(sampling));
    near(found.left, shares);
  }
});

test("temperature 0 leaves the likeliest alone", () => {
  const { left, kept } = drawnFrom([1, 3, 2], { temperature: 0, top_k: 0, top_p: 1 });
  assert.deepEqual([...left], [0, 1, 0]);
  assert.deepEqual(kept, [false, true, false]);
});

test("the largest come first, whatever their number", () => {
  assert.deepEqual(largest([3, 9, 1, 9, 4], 3), [1, 3, 4]);
  assert.deepEqual(largest([2], 5), [0]);
});

test("attention of every kind of position is PyTorch's", () => {
  for (const [kind, page] of Object.entries(numbers.pages)) {
    const open = openerOf(page.tensors);
    for (const entry of page.attentions) {
      const attention = new Attention(entry, open);
      for (let head = 0; head < attention.heads; head++)
        assert.ok(attention.difference(head) < 1e-5, `${kind}, ${entry.name}, head ${head + 1}`);
    }
  }
});

test("a story's weights add up to 1, and masked keys get none", () => {
  const page = Object.values(numbers.pages)[0],
    attention = new Attention(page.attentions[0], openerOf(page.tensors)),
    { keys } = attention.story(1, 2);
  near([keys.reduce((sum, key) => sum + key.weight, 0)], [1], 1e-6);
  for (const key of keys) assert.equal(key.weight > 0, key.allowed);
  assert.ok(headStatistics(attention, 1).entropy >= 0);
});

test("rotations are PyTorch's, and turning back undoes them", () => {
  for (const { vector, by, base, layout, out } of numbers.rotated) {
    const rule = { kind: "rotary", base, layout } as const;
    near(turned(vector, by, rule), out, 1e-5);
    near(turned(turned(vector, by, rule), -by, rule), vector, 1e-9);
  }
});

test("length penalties are the search's", () => {
  for (const { length, alpha, kind, penalty: wanted } of numbers.penalties)
    near([penalty(length, alpha, kind)], [wanted], 1e-12);
  const line = { text: "", nodes: [], stopped: true };
  const lines = [
    { ...line, length: 2, log_probability: -1 },
    { ...line, length: 8, log_probability: -2 },
  ];
  assert.deepEqual(
    [0, 2].map((alpha) => ranked({ lines, penalty: "mean" }, alpha)[0].index),
    [0, 1],
  );
});

test("stored numbers open with the size of their step", () => {
  const base64 = (values: ArrayBufferView) => Buffer.from(values.buffer).toString("base64"),
    scales = base64(new Float32Array([0.5, 2]));
  const tensor = opened({ type: "int8", shape: [2, 2], data: base64(new Int8Array([1, -2, 3, 4])), scales });
  assert.deepEqual([...tensor.data], [0.5, -1, 6, 8]);
  assert.equal(doubt(tensor, 1), 1);
  const bits = opened({ type: "bit", shape: [3], data: base64(new Uint8Array([0b101])) });
  assert.deepEqual([...bits.data], [1, 0, 1]);
});

test("numbers are printed with the figures that are right, and no more", () => {
  assert.equal(figures(0.12345, 4), "0.1235");
  assert.equal(figures(-0.12345, 4, 0.004), "−0.12");
  assert.equal(figures(0.001, 4, 0.1), "0");
  assert.equal(figures(-Infinity), "−∞");
  assert.equal(figures(0.00001234), "1.23e−5");
  assert.equal(decimals(-0.00000001), "0.0000000");
  assert.equal(percent(0.0001), "<0.1%");
  for (let n = 0; n < 2000; n++) {
    const value = Math.sin(n) * 10 ** ((n % 9) - 4),
      error = 10 ** ((n % 6) - 5),
      text = figures(value, 5, error).replace("−", "-").replace("e−", "e-"),
      unit = 10 ** Math.ceil(Math.log10(2 * error));
    assert.ok(Math.abs(Number(text) - value) <= Math.max(unit / 2, Math.abs(value) * 1e-4) * (1 + 1e-9), text);
  }
});

test("text can be read on every shade of both themes", () => {
  for (const theme of ["light", "dark"] as const) {
    setTheme(theme);
    for (let n = 0; n <= 100; n++)
      for (const colour of [shareColour(n / 100), signedColour(n / 50 - 1, 1)]) {
        const ink = parseInt(inkOn(colour).slice(1), 16);
        assert.ok(contrast(colour, { r: ink >> 16, g: (ink >> 8) & 255, b: ink & 255 }) >= 4.5);
      }
  }
  near([spline([0, 10, 20], 0), spline([0, 10, 20], 0.5), spline([0, 10, 20], 1)], [0, 10, 20]);
});

test("an address brings back what was chosen, and nothing else", () => {
  const defaults = { attention: 0, head: 0, key: -1, theme: "auto", "at.text": 3 } as unknown as Values,
    state = new State(defaults);
  state.read("#head=2&at.text=5&__proto__=1&constructor=2&unknown=3&theme=dark", () => true);
  assert.equal(state.hash(), "head=2&theme=dark&at.text=5");
  state.read("#attention=9", () => false);
  assert.equal(state.get("attention"), 0);
});

test("a view never leaves its picture, and the point under the pointer stays", () => {
  const extent = { left: 10, top: 20, right: 110, bottom: 220 },
    view = enlarged(WHOLE, 3, 40, 60, extent);
  near([(40 - view.x) / view.k, (60 - view.y) / view.k], [40, 60], 1e-9);
  const far = moved(view, 1000, -1000, extent);
  near([(extent.left - far.x) / far.k, (extent.bottom - far.y) / far.k], [extent.left, extent.bottom], 1e-9);
  assert.deepEqual(enlarged(view, 1 / 9, 0, 0, extent), WHOLE);
});

test("labels keep apart, and the tree's tokens as well", () => {
  assert.deepEqual(ticks(9, 3, 4), [0, 4]); // 3 and 6 stand too near the chosen one
  const node = (parent: number | null, step: number, nats: number) => ({
    parent,
    step,
    piece: "",
    nats,
    total: nats,
    status: "kept" as const,
  });
  const { y } = placed([node(null, 0, -1), node(null, 0, -2), node(0, 1, -1), node(0, 1, -2), node(1, 1, -1)]);
  assert.ok(y[1] - y[0] >= 1 && y[3] - y[2] >= 1 && y[4] - y[3] >= 1);
});

test("a block adds up to PyTorch's stream, before and after its norms", () => {
  let blocks = 0;
  for (const [kind, page] of Object.entries(numbers.pages)) {
    const open = openerOf(page.tensors);
    for (const { layers } of page.stacks)
      for (const { steps, left } of layers) {
        if (!steps || !left) continue;
        const { shape, data } = open(left),
          [T, D] = shape;
        for (let t = 0; t < T; t++) {
          const found = chainOf(steps, t, open);
          near(found[found.length - 1].stream, data.subarray(t * D, (t + 1) * D), 2e-5);
          assert.equal(found.length, steps.length, kind);
        }
        blocks++;
      }
  }
  assert.ok(blocks >= 12, String(blocks));
});

test("norms are PyTorch's", () => {
  for (const { x, gain, shift, eps, layer, rms } of numbers.norms) {
    near(normalised(x, { kind: "layer", eps }, gain, shift).values, layer);
    near(normalised(x, { kind: "rms", eps }, gain, null).values, rms);
  }
});
