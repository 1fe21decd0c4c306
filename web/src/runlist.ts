// The list of runs: a table with a row for each, whose name chooses the run.

import { sparkline, strokeOf } from "./chart.ts";
import { el, swap } from "./dom.ts";
import { figures } from "./core/numbers.ts";
import { roving } from "./keyboard.ts";
import { ageText, type BoardRun } from "./core/board.ts";

const COLUMNS = [
  ["run", ""],
  ["task", "more"],
  ["model", "more"],
  ["parameters", "more number"],
  ["step", ""],
  ["best", "number"],
  ["validation loss", "more"],
  ["state", ""],
  ["", ""],
] as const; // names, and classes: "more" is left out where there is little room

/** A row, as the dashboard knows it. */
export interface Listed {
  run: BoardRun;
  colour: number;
  drawn: boolean; // whether its curves are
  address: string | null; // of its page
}

export class RunList {
  private readonly body = el("tbody", {});
  private readonly settle = roving(this.body, { press: false });
  readonly node = el(
    "table",
    { class: "runs" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        COLUMNS.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)),
      ),
    ),
    this.body,
  );

  /** `toggle` is called with the folder of a run that is chosen, or not any more. */
  constructor(private readonly toggle: (run: string) => void) {}

  /** Show these runs, or `none`, the sentence for no run. */
  show(listed: Listed[], none: string): void {
    swap(this.body, ...listed.map((each) => this.row(each)));
    if (!listed.length) this.body.append(el("tr", {}, el("td", { colspan: COLUMNS.length }, none)));
    this.settle();
  }

  private row({ run, colour, drawn, address }: Listed): HTMLElement {
    const name = el(
      "button",
      {
        type: "button",
        class: "line pick",
        "aria-pressed": String(drawn),
        "data-key": run.run,
        title: run.run,
        onclick: () => this.toggle(run.run),
      },
      el("span", { class: "swatch", style: { background: strokeOf(colour).stroke } }),
      el("bdi", {}, run.name),
    );
    const cells = [
      name,
      run.task ?? "–",
      run.model ?? "–",
      run.parameters === null ? "–" : counted(run.parameters),
      progress(run),
      bestText(run),
      sparkline(run.curves.val_loss ?? run.curves.loss ?? [], colour),
      stateText(run),
      address && el("a", { class: "quiet", href: address, "aria-label": `Look inside ${run.name}` }, "look"),
    ];
    return el(
      "tr",
      { class: drawn ? "row drawn" : "row" },
      cells.map((cell, n) => el(n ? "td" : "th", { ...(n ? {} : { scope: "row" }), class: COLUMNS[n][1] }, cell)),
    );
  }
}

function progress({ step, steps, state }: BoardRun): Node {
  const share = steps ? Math.min(1, (step ?? 0) / steps) : 0,
    text =
      step === null
        ? "–"
        : steps
          ? `${step.toLocaleString("en")} of ${steps.toLocaleString("en")}`
          : step.toLocaleString("en");
  return el(
    "span",
    { class: "progress" },
    text,
    state === "training" ? el("span", { class: "track" }, el("span", { style: { width: `${100 * share}%` } })) : null,
  );
}

function stateText({ state, age, problem }: BoardRun): Node {
  return el(
    "span",
    { class: `state ${state}`, title: problem ?? "" },
    state,
    state === "training" || age === null ? null : el("small", {}, ` ${ageText(age)}`),
  );
}

function bestText({ best, best_by, best_value }: BoardRun): string {
  if (best === null) return "–";
  return best_by && best_by !== "val_loss" && best_value !== null
    ? `${best_by.replace(/^val_/, "")} ${figures(best_value, 4)}`
    : figures(best, 4);
}

function counted(parameters: number): string {
  for (const [unit, size] of [
    ["B", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const)
    if (parameters >= size) return `${Number((parameters / size).toPrecision(3))} ${unit}`;
  return String(parameters);
}
