import assert from "node:assert/strict";
import { test } from "node:test";
import { ageText, differences, firstChosen, meets, metricsOf, nearest, updated } from "../src/core/board.ts";
import type { BoardRun } from "../src/core/board.ts";
import { roundNumbers, scaled } from "../src/core/scale.ts";

const run = (name: string, more: Partial<BoardRun> = {}): BoardRun => ({
  run: `runs/${name}`, name, version: "1", age: 10, task: "translation", model: "transformer", parameters: 1,
  data: "phrases", step: 1, steps: 2, best: null, best_step: null, best_by: null, best_value: null, bytes: 0,
  state: "finished", problem: null, settings: {}, curves: { loss: [[1, 2]] }, loss_unit: "", checkpoints: [], ...more,
}); // prettier-ignore

test("settings that differ are named, also where a run lacks one", () => {
  const a = run("a", { settings: { "train.seed": 0, "model.width": 64, "model.heads": [1, 2] } }),
    b = run("b", { settings: { "train.seed": 1, "model.width": 64, "model.heads": [1, 2], "model.more": null } });
  assert.deepEqual(differences([a, b]), [
    { key: "train.seed", values: [0, 1] },
    { key: "model.more", values: [undefined, null] },
  ]);
  assert.deepEqual(differences([a]), []);
});

test("what a live dashboard is told replaces what has changed, and keeps the rest", () => {
  const known = [run("a"), run("b")];
  const quiet = updated(known, { runs: known.map(({ run: name, version }) => ({ run: name, version, age: 12 })) });
  assert.equal(quiet.changed, false);
  assert.equal(quiet.runs[0].age, 12);
  assert.deepEqual(quiet.runs[0].curves, known[0].curves);
  const grown = updated(known, { runs: [run("a", { version: "2", curves: { loss: [[1, 2], [2, 1]] } }), { run: "runs/b", version: "1", age: 0 }] }); // prettier-ignore
  assert.equal(grown.changed, true);
  assert.equal(grown.runs[0].curves.loss.length, 2);
  const gone = updated(known, { runs: [{ run: "runs/a", version: "1", age: 0 }] });
  assert.deepEqual([gone.changed, gone.runs.length], [true, 1]);
});

test("metrics, filters and the first choice", () => {
  const runs = [
    run("a", { age: 5, curves: { norm: [], val_bleu: [], loss: [], val_loss: [] } }),
    run("b", { age: 1 }),
    run("c", { age: 9, state: "training" }),
    run("d", { curves: {} }),
  ];
  assert.deepEqual(metricsOf(runs), ["val_loss", "loss", "val_bleu", "norm"]);
  assert.deepEqual(firstChosen(runs, 2), ["runs/c", "runs/b"]);
  assert.ok(meets(runs[2], "TRAIN runs/c") && !meets(runs[0], "training"));
  assert.deepEqual(nearest([[1, 5], [10, 6], [20, 7]], 14), [10, 6]); // prettier-ignore
  assert.deepEqual([ageText(0), ageText(59), ageText(7300)], ["now", "59 s ago", "2 h ago"]);
});

test("axes have round numbers, and places lead back to numbers", () => {
  assert.deepEqual(roundNumbers(0, 1240, 5), [0, 500, 1000]);
  assert.deepEqual(roundNumbers(0.1, 0.52, 4), [0.2, 0.4]);
  for (const logarithmic of [false, true]) {
    const scale = scaled(2, 2000, 40, 640, logarithmic);
    for (const value of [2, 31, 2000]) assert.ok(Math.abs(scale.value(scale.at(value)) / value - 1) < 1e-9);
    assert.ok(scale.ticks.every((tick) => tick >= 2 && tick <= 2000));
  }
  assert.deepEqual(scaled(1, 1000, 0, 1, true).ticks, [1, 3, 10, 30, 100, 300, 1000]);
});
