// The dashboard: all runs with their curves, what differs in their settings, and what they reached; live, or in a file.

import { el, swap, table } from "./dom.ts";
import { chart, type Line } from "./chart.ts";
import { figure } from "./figure.ts";
import { roving } from "./keyboard.ts";
import { RunList } from "./runlist.ts";
import { resultsTable, settingsTable } from "./runtables.ts";
import { themed } from "./header.ts";
import {
  firstChosen,
  meets,
  metricName,
  metricsOf,
  nearest,
  updated,
  type BoardData,
  type BoardNews,
  type BoardRun,
} from "./core/board.ts";

const POLL = 1500; // milliseconds
const FIRST = 6; // runs whose curves are drawn at first
type Ask = (known: Record<string, string>) => Promise<BoardNews>;

interface Chosen {
  runs: string[] | null; // null: what `firstChosen` says
  metric: string;
  x: string;
  y: string;
  filter: string;
  theme: string;
}

export interface LiveBoard {
  ask: Ask;
  address: (run: string) => string; // of a run's page
}

/** Show a dashboard; with `live` what the server knows anew is asked for again and again. */
export function dashboard(data: BoardData, live: LiveBoard | null): void {
  new Dashboard(data.runs, live).begin();
}

class Dashboard {
  private readonly chosen = addressed();
  private readonly title = el("h1", {}, "Runs");
  private readonly status = el("p", { class: "facts", role: "status" });
  private readonly list = new RunList((run) => this.toggle(run));
  private readonly chart = chart();
  private readonly metrics = el("div", { class: "tabs", role: "group", "aria-label": "What is drawn" });
  private readonly settleMetrics = roving(this.metrics);
  private readonly curves;
  private readonly note = el("p", { class: "note" });
  private readonly settings = el("div", { class: "wide" });
  private readonly scores = el("div", { class: "wide" });
  private readonly axes: { key: "x" | "y"; node: HTMLElement }[];

  constructor(
    private runs: BoardRun[],
    private readonly live: LiveBoard | null,
  ) {
    this.axes = (["x", "y"] as const).map((key) => ({
      key,
      node: el(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => this.set({ [key]: this.chosen[key] === "log" ? "" : "log" }),
        },
        `log ${key === "x" ? "steps" : "values"}`,
      ),
    }));
    this.curves = figure({
      title: "Curves",
      name: "curves",
      tools: this.axes.map(({ node }) => node),
      rows: () => this.curveTable(),
    });
    this.curves.root.insertBefore(this.metrics, this.curves.stage);
    this.curves.stage.append(this.note, this.chart.node);
    this.build();
  }

  begin(): void {
    themed(this.chosen.theme || "auto");
    this.draw();
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) this.drawCurves();
      width = innerWidth;
    });
    document.documentElement.dataset.ready = "yes";
    if (this.live) void this.poll(this.live.ask);
  }

  private build(): void {
    const theme = el(
      "button",
      {
        type: "button",
        class: "quiet",
        id: "theme",
        onclick: () => {
          this.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
          theme.setAttribute("aria-pressed", String(this.chosen.theme === "dark"));
        },
      },
      "Dark",
    );
    const filter: HTMLInputElement = el("input", {
      type: "search",
      id: "filter",
      placeholder: "name, task, model, data, state",
      value: this.chosen.filter,
      oninput: (event: Event) => this.set({ filter: (event.target as HTMLInputElement).value }),
    });
    document.body.append(
      el(
        "header",
        { class: "top" },
        el(
          "div",
          { class: "bar" },
          el("span", { class: "mark" }, "headway runs"),
          el("span", { class: "grow" }),
          theme,
        ),
        this.title,
        this.status,
      ),
      el(
        "main",
        {},
        el(
          "section",
          { class: "board", "aria-label": "The runs" },
          el("div", { class: "control filter" }, el("label", { for: "filter" }, "Filter"), filter),
          el("div", { class: "wide", role: "group", "aria-label": "List of the runs", tabindex: 0 }, this.list.node),
        ),
        el("section", { "aria-label": "Curves" }, this.curves.root),
        el(
          "div",
          { class: "pairs" },
          part("settings", "Settings that differ", this.settings),
          part("scores", "Results", this.scores),
        ),
      ),
      el(
        "footer",
        {},
        el(
          "p",
          {},
          this.live
            ? "Served by headway on this machine; read from the logs of the runs."
            : "Written by headway from the logs of the runs. This file loads nothing.",
        ),
      ),
    );
  }

  private set(changes: Partial<Chosen>): void {
    Object.assign(this.chosen, changes);
    themed(this.chosen.theme || "auto");
    remember(this.chosen);
    this.draw();
  }

  /** The runs that are drawn, in the order of the list. */
  private drawn(): BoardRun[] {
    const chosen = this.chosen.runs ?? firstChosen(this.runs, FIRST);
    return this.runs.filter(({ run }) => chosen.includes(run));
  }

  private toggle(run: string): void {
    const now = this.drawn().map((each) => each.run);
    this.set({ runs: now.includes(run) ? now.filter((each) => each !== run) : [...now, run] });
  }

  private draw(): void {
    const training = this.runs.filter(({ state }) => state === "training").length,
      listed = this.runs.filter((run) => meets(run, this.chosen.filter));
    this.status.textContent = [
      `${this.runs.length} ${this.runs.length === 1 ? "run" : "runs"}`,
      training ? `${training} training now` : null,
      listed.length < this.runs.length ? `${listed.length} meet the filter` : null,
    ]
      .filter(Boolean)
      .join(" · ");
    const drawn = new Set(this.drawn().map(({ run }) => run)),
      rows = listed.map((run) => ({
        run,
        colour: this.colour(run),
        drawn: drawn.has(run.run),
        address: this.live && run.looks && run.checkpoints.length ? this.live.address(run.run) : null,
      }));
    this.list.show(
      rows,
      this.runs.length ? "No run meets the filter." : "There is no run here yet: headway train makes one.",
    );
    this.drawCurves();
    const runs = this.drawn();
    swap(this.settings, settingsTable(runs));
    swap(this.scores, resultsTable(runs));
  }

  private colour(run: BoardRun): number {
    return this.runs.indexOf(run);
  }

  private drawCurves(): void {
    const runs = this.drawn(),
      metrics = metricsOf(runs),
      metric = metrics.includes(this.chosen.metric) ? this.chosen.metric : (metrics[0] ?? "");
    swap(
      this.metrics,
      ...metrics.map((name) =>
        el(
          "button",
          {
            type: "button",
            class: "tab",
            "data-key": name,
            "aria-pressed": String(name === metric),
            onclick: () => this.chosen.metric !== name && this.set({ metric: name }),
          },
          metricName(name),
        ),
      ),
    );
    this.settleMetrics();
    for (const { key, node } of this.axes) node.setAttribute("aria-pressed", String(this.chosen[key] === "log"));
    const units = [...new Set(runs.map(({ loss_unit }) => loss_unit).filter(Boolean))],
      lines: Line[] = runs.map((run) => ({
        name: run.name,
        curve: run.curves[metric] ?? [],
        colour: this.colour(run),
      }));
    const unit = /loss$/.test(metric) && units.length === 1 ? ` (${units[0]})` : "";
    const tasks = new Set(runs.map(({ task }) => task)).size > 1;
    this.note.textContent = runs.length
      ? `${capital(metricName(metric))}${unit} by step.${tasks && /loss$/.test(metric) ? " The runs have different tasks: their losses are not comparable." : ""}`
      : "Choose runs in the list to draw their curves.";
    this.chart.draw(lines, {
      label: `${metricName(metric)} by step`,
      logX: this.chosen.x === "log",
      logY: this.chosen.y === "log",
    });
    this.curves.refresh();
  }

  private curveTable(): HTMLElement {
    const runs = this.drawn(),
      metrics = metricsOf(runs),
      metric = metrics.includes(this.chosen.metric) ? this.chosen.metric : (metrics[0] ?? ""),
      steps = [...new Set(runs.flatMap(({ curves }) => (curves[metric] ?? []).map(([step]) => step)))].sort(
        (a, b) => a - b,
      );
    return table(
      metricName(metric),
      ["step", ...runs.map(({ name }) => name)],
      steps.map((step) => [
        step.toLocaleString("en"),
        ...runs.map(({ curves }) => {
          const found = nearest(curves[metric] ?? [], step);
          return found && found[0] === step ? found[1] : "";
        }),
      ]),
    );
  }

  private async poll(ask: Ask): Promise<void> {
    for (;;) {
      await new Promise((done) => setTimeout(done, POLL));
      if (document.hidden) continue;
      try {
        const news = await ask(Object.fromEntries(this.runs.map(({ run, version }) => [run, version]))),
          { runs, changed } = updated(this.runs, news);
        this.runs = runs;
        document.documentElement.dataset.polled = String(Number(document.documentElement.dataset.polled ?? 0) + 1);
        if (changed) this.draw();
      } catch {
        this.status.textContent = "The server does not answer any more: this is what it said last.";
      }
    }
  }
}

function part(id: string, title: string, content: HTMLElement): HTMLElement {
  return el("section", { "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), content);
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** What an address says is chosen. */
function addressed(): Chosen {
  const told = new URLSearchParams(location.hash.slice(1)),
    runs = told.get("runs");
  const text = (name: string, allowed: RegExp) => (allowed.test(told.get(name) ?? "") ? (told.get(name) ?? "") : "");
  return {
    runs: runs === null ? null : runs.split("\n"),
    metric: text("metric", /^\w{1,80}$/),
    x: text("x", /^log$/),
    y: text("y", /^log$/),
    filter: told.get("filter") ?? "",
    theme: text("theme", /^(light|dark)$/),
  };
}

function remember({ runs, ...chosen }: Chosen): void {
  const told = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value));
  if (runs) told.set("runs", runs.join("\n"));
  try {
    history.replaceState(null, "", `#${told}`);
  } catch {
    /* a page inside another may not */
  }
}
