// Attention over training: one input, looked at again and again while the model learned.

import { el, shortened, swap, table, visible } from "./dom.ts";
import { chart, type Line } from "./chart.ts";
import { shareColour } from "./core/colour.ts";
import { figures, percent } from "./core/numbers.ts";
import { gridOf, learnedAt, patternRows, PATTERNS, type HeadRow } from "./core/lapse.ts";
import { figure } from "./figure.ts";
import { shortNameOf } from "./glance.ts";
import { heat } from "./heat.ts";
import { roving } from "./keyboard.ts";
import { shareLegend } from "./legend.ts";
import type { TimeLapseEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";

const TOKENS = 8; // whose probabilities are drawn
const PLAYED = 450; // milliseconds a step

class Lapse {
  readonly steps: number[];

  constructor(
    readonly page: Page,
    readonly entry: TimeLapseEntry,
  ) {
    this.steps = entry.looks.map(({ step }) => step);
  }

  get at(): number {
    return Math.min(this.page.state.get("lapse"), this.steps.length - 1);
  }

  /** The attention of the time-lapse that is looked at on the page; else its first. */
  get chosen() {
    const name = this.page.attention?.entry.name;
    return this.entry.attentions.find((each) => each.name === name) ?? this.entry.attentions[0];
  }

  tokens(name: string, at = this.at): string[] {
    return (this.entry.looks[at].sequences[name] ?? []).map(visible);
  }

  heads(name: string): number {
    return this.page.open(this.entry.looks[0].weights[name])?.shape[0] ?? 0;
  }

  nameOf({ label, kind, layer, unit }: TimeLapseEntry["attentions"][number]): string {
    return `${label} ${kind === "cross" ? "cross-attention" : unit} ${layer + 1}`;
  }
}

export function timeLapse(page: Page, entry: TimeLapseEntry): HTMLElement[] {
  const lapse = new Lapse(page, entry);
  return [overTraining(lapse), learned(lapse)];
}

function overTraining(lapse: Lapse): HTMLElement {
  const { page, entry, steps } = lapse,
    picture = heat(),
    lines = chart(),
    title = el("h3", { class: "small" }),
    output = el("output", { for: "lapse" }),
    slider = el("input", {
      type: "range",
      id: "lapse",
      min: 0,
      max: steps.length - 1,
      step: 1,
      oninput: () => page.state.set({ lapse: Number(slider.value) }),
    }) as HTMLInputElement;
  let playing = 0;
  const stop = () => {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  };
  const play = el(
    "button",
    {
      type: "button",
      class: "quiet",
      id: "lapse-play",
      onclick: () => {
        if (playing) return stop();
        play.textContent = "Stop";
        if (lapse.at === steps.length - 1) page.state.set({ lapse: 0 });
        playing = window.setInterval(() => {
          if (lapse.at >= steps.length - 1 || !play.isConnected) stop();
          else page.state.set({ lapse: lapse.at + 1 });
        }, PLAYED);
      },
    },
    "Play",
  );
  const made = figure({
    title: "One head while it learned",
    name: "over-training",
    tools: [play],
    note:
      `“${shortened(entry.given, 60)}” at ${steps.length} steps of training; the head is the one chosen on the page.` +
      (entry.left_out ? ` To keep the file small, ${entry.left_out} more steps are left out.` : ""),
    rows: () => {
      const { queries } = lapse.chosen,
        i = Math.min(page.look().i, lapse.tokens(queries).length - 1),
        head = page.state.get("head");
      return table(
        `Largest weights of ${lapse.tokens(queries)[i]} by step`,
        ["step", "validation loss", "key", "weight"],
        entry.looks.map((look, n) => {
          const grid = gridOf(page.open, entry, n, lapse.chosen.name, head),
            keys = lapse.tokens(lapse.chosen.keys, n);
          let best = 0;
          if (grid) for (let j = 1; j < grid.S; j++) if (grid.at(i, j) > grid.at(i, best)) best = j;
          return [
            look.step.toLocaleString("en"),
            look.loss ?? "–",
            keys[best] ?? "–",
            grid ? grid.at(Math.min(i, grid.T - 1), best) : "–",
          ];
        }),
      );
    },
  });
  const legend = el("div", { class: "wide" }),
    probable = el("div", { class: "half" }, el("h3", { class: "small" }, "How likely each token became"), lines.node);
  made.root.insertBefore(
    el("div", { class: "control" }, el("label", { for: "lapse" }, "Step"), slider, output),
    made.stage,
  );
  made.stage.append(
    el("div", { class: "halves" }, el("div", { class: "half" }, title, picture.node, legend), probable),
  );
  const curves = likelihoods(entry);
  probable.hidden = !curves.length;
  const draw = () => {
    const { at, chosen } = lapse,
      look = entry.looks[at],
      head = Math.min(page.state.get("head"), lapse.heads(chosen.name) - 1),
      grid = gridOf(page.open, entry, at, chosen.name, head);
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", `step ${look.step}`);
    output.textContent = `${look.step.toLocaleString("en")}${look.loss === null ? "" : `, validation loss ${figures(look.loss, 4)}`}`;
    title.textContent = `${lapse.nameOf(chosen)}, head ${head + 1}`;
    if (grid) {
      const [queries, keys] = [lapse.tokens(chosen.queries), lapse.tokens(chosen.keys)],
        now = page.look(),
        same = now.attention.entry.name === chosen.name;
      picture.draw(
        {
          label: `Weights at step ${look.step}`,
          rows: queries.slice(0, grid.T),
          columns: keys.slice(0, grid.S),
          colour: (row, column) => shareColour(grid.at(row, column)),
          chosen: { row: same ? Math.min(now.i, grid.T - 1) : 0, column: same ? Math.min(now.j, grid.S - 1) : 0 },
          lines: (row, column) => [
            `${queries[row]} → ${keys[column]}`,
            `step ${look.step}`,
            `weight ${figures(grid.at(row, column), 4)}`,
          ],
          pick: (row, column) => same && page.state.set({ [`at.${chosen.queries}`]: row, key: column }),
        },
        Math.min(420, made.stage.clientWidth || 420),
      );
    }
    legend.replaceChildren(shareLegend());
    if (curves.length)
      lines.draw(curves, {
        label: "Probability of each token that came, by step",
        logX: true,
        height: 300,
        legend: true,
        mark: look.step,
        pick: (step) => page.state.set({ lapse: Math.max(0, steps.indexOf(step)) }),
      });
    made.refresh();
  };
  page.watch(["lapse", ...page.looked()], draw, made.root);
  return made.root;
}

/** The probability of each token that came, over the steps; nothing where the tokens are not the same at all of them. */
function likelihoods({ looks }: TimeLapseEntry): Line[] {
  const last = looks[looks.length - 1],
    count = last.log_probabilities?.length ?? 0;
  if (!last.log_probabilities || looks.some(({ log_probabilities: each }) => each?.length !== count)) return [];
  const written = last.came ?? [];
  return last.log_probabilities
    .flatMap((share, place) =>
      share === null
        ? []
        : [
            {
              name: visible(written[place] ?? `place ${place + 1}`),
              curve: looks.map((look): [number, number] => [look.step, Math.exp(look.log_probabilities?.[place] ?? 0)]),
              colour: place,
            },
          ],
    )
    .slice(0, TOKENS);
}

/** Every head's share of a pattern by step: when it was learned, and by which heads. */
function learned(lapse: Lapse): HTMLElement {
  const { page, entry, steps } = lapse,
    picture = heat();
  const found = PATTERNS.map((pattern) => ({
    pattern,
    rows: patternRows(page.open, entry, pattern, (name) => lapse.heads(name)),
  })).filter(({ rows }) => rows.length);
  let chosen = 0;
  const nameOf = ({ index, head }: HeadRow) => `${lapse.nameOf(entry.attentions[index])}, head ${head + 1}`;
  const made = figure({
    title: "When each head learned it",
    name: "heads-over-training",
    note: "A row for each head, a column for each step; the stronger the shade, the more of the head's weight follows the pattern. Choose a cell to go to that head and step.",
    rows: () =>
      table(
        `The share of “${found[chosen].pattern.name}”`,
        ["head", "from step on more than half", ...steps.map((step) => step.toLocaleString("en"))],
        found[chosen].rows.map((row) => [
          nameOf(row),
          learnedAt(row.shares, steps)?.toLocaleString("en") ?? "–",
          ...row.shares.map((share) => (share === null ? "–" : percent(share))),
        ]),
      ),
  });
  const tabs = found.map(({ pattern }, n) =>
    el(
      "button",
      {
        type: "button",
        class: "tab",
        "aria-pressed": String(!n),
        onclick: () => {
          chosen = n;
          tabs.forEach((tab, m) => tab.setAttribute("aria-pressed", String(m === n)));
          draw();
        },
      },
      pattern.name,
    ),
  );
  const group = el("div", { class: "tabs", role: "group", "aria-label": "Which pattern" }, tabs),
    sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" }, picture.node);
  roving(group)();
  made.root.insertBefore(group, made.stage);
  made.stage.append(sentence, holder);
  const draw = () => {
    const { rows, pattern } = found[chosen],
      reached = rows.flatMap((row) => {
        const step = learnedAt(row.shares, steps);
        return step === null ? [] : [{ row, step }];
      });
    reached.sort((a, b) => a.step - b.step);
    sentence.textContent = reached.length
      ? `The first is ${nameOf(reached[0].row)}: from step ${reached[0].step.toLocaleString("en")} on, more than half of its weight. ${reached.length} of ${rows.length} heads end so.`
      : "No head ends with more than half of its weight there.";
    const name = page.attention?.entry.name,
      here = rows.findIndex((row) => entry.attentions[row.index].name === name && row.head === page.state.get("head"));
    picture.draw(
      {
        label: `The share of “${pattern.name}” by head and step`,
        rows: rows.map(({ index, head }) => shortNameOf(entry.attentions[index], head)),
        columns: steps.map(String),
        colour: (row, column) => shareColour(rows[row].shares[column] ?? 0),
        chosen: { row: Math.max(0, here), column: lapse.at },
        lines: (row, column) => [
          nameOf(rows[row]),
          `step ${steps[column].toLocaleString("en")}`,
          `${pattern.name} ${percent(rows[row].shares[column] ?? 0)}`,
        ],
        pick: (row, column) => {
          const index = page.attentions.findIndex(
            ({ entry: own }) => own.name === entry.attentions[rows[row].index].name,
          );
          page.state.set({ lapse: column, ...(index >= 0 ? { attention: index, head: rows[row].head } : {}) });
        },
      },
      holder.clientWidth || 640,
      18,
    );
    made.refresh();
  };
  page.watch(["lapse", "attention", "head"], draw, made.root);
  page.onTheme(draw);
  swap(holder, picture.node);
  return made.root;
}
