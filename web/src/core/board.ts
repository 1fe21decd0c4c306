// The dashboard's data, as src/headway/runs/board.py gives it, and what is computed of it.

export type Curve = [step: number, value: number][];

export interface BoardRun {
  run: string; // its folder
  name: string;
  version: string;
  age: number | null; // seconds since training wrote
  task: string | null;
  title?: string;
  model: string | null;
  parameters: number | null;
  data: string | null;
  step: number | null;
  steps: number | null;
  best: number | null;
  best_step: number | null;
  best_by: string | null;
  best_value: number | null;
  bytes: number;
  state: "training" | "finished" | "stopped" | "imported" | "damaged";
  problem: string | null;
  settings: Record<string, unknown>;
  curves: Record<string, Curve>;
  loss_unit: string;
  unit?: string;
  checkpoints: number[];
  looks?: boolean; // whether it can be opened live
}

export interface BoardData {
  runs: BoardRun[];
}

/** What a live dashboard is told: of a run whose version it knows only the age. */
export type BoardNews = { runs: (BoardRun | Pick<BoardRun, "run" | "version" | "age">)[] };

export function updated(runs: BoardRun[], { runs: news }: BoardNews): { runs: BoardRun[]; changed: boolean } {
  const known = new Map(runs.map((each) => [each.run, each]));
  let changed = news.length !== runs.length;
  const now = news.flatMap((each) => {
    if ("settings" in each) {
      changed = true;
      return [each];
    }
    const old = known.get(each.run);
    return old ? [{ ...old, age: each.age }] : [];
  });
  return { runs: now, changed };
}

/** The metrics that some of these runs have, those one looks at first in front. */
export function metricsOf(runs: BoardRun[]): string[] {
  const names = new Set(runs.flatMap(({ curves }) => Object.keys(curves)));
  const first = ["val_loss", "loss"].filter((name) => names.has(name)),
    last = ["learning_rate", "norm", "speed"].filter((name) => names.has(name));
  return [...first, ...[...names].filter((name) => !first.includes(name) && !last.includes(name)).sort(), ...last];
}

const NAMES: Record<string, string> = {
  val_loss: "validation loss",
  loss: "training loss",
  learning_rate: "learning rate",
  norm: "gradient norm",
};

export function metricName(name: string): string {
  return NAMES[name] ?? name.replace(/^val_/, "validation ").replaceAll("_", " ");
}

/** The settings in which runs differ, with each run's value; undefined where a run has no such key. */
export function differences(runs: BoardRun[]): { key: string; values: unknown[] }[] {
  const keys = new Set(runs.flatMap(({ settings }) => Object.keys(settings)));
  return [...keys]
    .map((key) => ({ key, values: runs.map(({ settings }) => settings[key]) }))
    .filter(({ values }) => values.some((value) => JSON.stringify(value) !== JSON.stringify(values[0])));
}

export function settingText(value: unknown): string {
  if (value === undefined) return "–";
  if (value === null) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Whether a run is meant by the words of a filter: all of them stand in what the list says of it. */
export function meets(run: BoardRun, filter: string): boolean {
  const text = [run.run, run.task, run.model, run.data, run.state].join(" ").toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** The runs whose curves are drawn at first: what is training, then what was trained last. */
export function firstChosen(runs: BoardRun[], most: number): string[] {
  const rank = ({ state, age }: BoardRun) => (state === "training" ? -1 : (age ?? Infinity));
  return runs
    .filter(({ curves }) => Object.keys(curves).length)
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, most)
    .map(({ run }) => run);
}

/** The point of a curve nearest to a step. */
export function nearest(curve: Curve, step: number): [number, number] | null {
  let best: [number, number] | null = null;
  for (const point of curve) if (!best || Math.abs(point[0] - step) < Math.abs(best[0] - step)) best = point;
  return best;
}

export function ageText(seconds: number | null): string {
  if (seconds === null) return "";
  for (const [unit, size] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
  ] as const)
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  return seconds < 5 ? "now" : `${Math.floor(seconds)} s ago`;
}
