// Runs beside each other: the settings in which they differ, and what they reached.

import { el, table } from "./dom.ts";
import { differences, metricName, metricsOf, settingText, type BoardRun } from "./core/board.ts";

export function settingsTable(runs: BoardRun[]): HTMLElement {
  if (runs.length < 2) return el("p", { class: "note" }, "Choose two runs or more.");
  const found = differences(runs),
    all = new Set(runs.flatMap(({ settings }) => Object.keys(settings)));
  if (!found.length) return el("p", { class: "note" }, "These runs have the same settings.");
  return table(
    `Of ${all.size} settings, those that differ`,
    ["setting", ...runs.map(({ name }) => name)],
    found.map(({ key, values }) => [key, ...values.map(settingText)]),
  );
}

export function resultsTable(runs: BoardRun[]): HTMLElement {
  if (!runs.length) return el("p", { class: "note" }, "Choose a run.");
  const last = metricsOf(runs).filter((name) => name !== "speed");
  return table(
    "Best checkpoint, and the last value of each curve",
    ["figure", ...runs.map(({ name }) => name)],
    [
      ["best validation loss", ...runs.map(({ best }) => best ?? "–")],
      ["at step", ...runs.map(({ best_step }) => (best_step === null ? "–" : best_step.toLocaleString("en")))],
      ...last.map((name) => [
        metricName(name),
        ...runs.map(({ curves }) => curves[name]?.[curves[name].length - 1]?.[1] ?? "–"),
      ]),
      ["parameters", ...runs.map(({ parameters }) => (parameters ?? 0).toLocaleString("en"))],
    ],
  );
}
