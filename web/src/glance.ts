// All layers and heads at a glance: a small matrix each, to be chosen.

import type { Attention } from "./core/attention.ts";
import type { AttentionEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";
import { el, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { roving } from "./keyboard.ts";
import { figures, percent } from "./core/numbers.ts";
import { fitted, cells, drawCells, turns } from "./canvas.ts";
import { shareColour } from "./core/colour.ts";
import { headStatistics, type HeadStatistics } from "./core/attention.ts";
import { figure } from "./figure.ts";
import { shareLegend } from "./legend.ts";

const SIZE = 54,
  FINE = 48; // pixels a side, and rows that are computed for it

/** Attentions that belong side by side: one stack's, of one kind. */
export function grouped(attentions: Attention[]): Map<string, { attention: Attention; index: number }[]> {
  const groups = new Map<string, { attention: Attention; index: number }[]>();
  attentions.forEach((attention, index) => {
    const { label, kind } = attention.entry,
      key = `${label}${kind === "cross" ? ", attending to the source" : ""}`;
    groups.set(key, [...(groups.get(key) ?? []), { attention, index }]);
  });
  return groups;
}

function thumbnail(canvas: HTMLCanvasElement, attention: Attention, head: number) {
  const T = Math.min(attention.T, FINE),
    S = Math.min(attention.S, FINE),
    step = attention.S / S;
  const rows = Array.from({ length: T }, (_, n) => attention.weights(head, Math.floor((n * attention.T) / T)));
  const image = cells(S, T, (x, y) => {
    let most = 0;
    for (let j = Math.floor(x * step); j < Math.floor((x + 1) * step); j++) most = Math.max(most, rows[y][j]);
    return shareColour(most);
  });
  drawCells(fitted(canvas, SIZE, SIZE), image, 0, 0, SIZE, SIZE);
}

export function glance(page: Page) {
  const { attentions, state } = page,
    jobs: (() => void)[] = [],
    settle: (() => void)[] = [];
  const told = new Map<string, HeadStatistics>();
  const statistics = (attention: Attention, head: number) => {
    const key = `${attention.entry.name} ${head}`;
    const known = told.get(key) ?? headStatistics(attention, head);
    told.set(key, known);
    return known;
  };
  const heads = attentions.reduce((sum, { heads: own }) => sum + own, 0);
  const made = figure({
    title: heads > 1 ? "Every head" : "The head",
    name: "heads",
    note:
      (heads > 1
        ? "One small matrix a head: queries down, keys across; the stronger the shade, the more weight. Choose one to open it below."
        : "Queries down, keys across; the stronger the shade, the more weight.") +
      (page.payload.left_out
        ? ` To keep the file small, ${page.payload.left_out} of ${page.payload.left_out + attentions.length} layers are left out.`
        : ""),
    rows: () =>
      table(
        "Heads: means over the queries whose rows the file keeps",
        [
          "head",
          "queries",
          "entropy (nats)",
          "on the first key",
          "on the last key",
          "mean distance",
          "on itself",
          "on the token before",
          "coverage of the keys",
        ],
        attentions.flatMap((attention: Attention) =>
          Array.from({ length: attention.heads }, (_, head) => {
            const s = statistics(attention, head),
              { doubts } = s,
              share = (value: number | undefined) => (value === undefined ? "–" : percent(value, doubts.share));
            return [
              `${nameOf(attention)}, head ${head + 1}`,
              s.rows < s.of ? `${s.rows} of ${s.of}` : String(s.of),
              figures(s.entropy, 4, doubts.entropy),
              share(s.first),
              share(s.last),
              s.distance === undefined ? "–" : figures(s.distance, 4, doubts.distance),
              share(s.self),
              share(s.before),
              s.coverage === undefined ? "–" : percent(s.coverage),
            ];
          }),
        ),
      ),
  });
  const groups = el("div", { class: "groups" });
  const legend = el("div", { class: "wide" });
  made.stage.append(groups, legend);
  for (const [name, members] of grouped(attentions)) {
    const grid = el("div", { class: "heads", role: "group", "aria-label": name });
    for (const { attention, index } of members) {
      const row = el(
        "div",
        { class: "row" },
        el("span", { class: "layer" }, `${attention.entry.unit} ${attention.entry.layer + 1}`),
      );
      for (let head = 0; head < attention.heads; head++) {
        const canvas = el("canvas", { "aria-hidden": "true" });
        const button = el(
          "button",
          {
            type: "button",
            class: "thumb",
            "aria-label": `${nameOf(attention)}, head ${head + 1}`,
            onclick: () => state.set({ attention: index, head, key: -1 }),
          },
          canvas,
        );
        tip(button, () => {
          const s = statistics(attention, head),
            share = (value: number | undefined) => percent(value ?? 0, s.doubts.share);
          return [
            `${nameOf(attention)}, head ${head + 1}`,
            `entropy ${figures(s.entropy, 3, s.doubts.entropy)} nats`,
            ...(s.coverage === undefined
              ? [
                  `mean distance ${figures(s.distance ?? 0, 3, s.doubts.distance)}`,
                  `on itself ${share(s.self)}, before ${share(s.before)}, first ${share(s.first)}`,
                ]
              : [
                  `first key ${share(s.first)}, last key ${share(s.last)}`,
                  `${percent(s.coverage)} of the keys are some query's first choice`,
                ]),
            ...(s.rows < s.of ? [`means over ${s.rows} of ${s.of} queries`] : []),
          ];
        });
        jobs.push(() => thumbnail(canvas, attention, head));
        settle.push(() =>
          button.setAttribute("aria-pressed", String(state.get("attention") === index && state.get("head") === head)),
        );
        row.append(button);
      }
      grid.append(row);
    }
    groups.append(el("div", { class: "group" }, el("h3", { class: "small" }, name), grid));
  }
  settle.push(roving(groups)); // up and down lead from one group to the next
  state.on(["attention", "head"], () => settle.forEach((each) => each()));
  let turn = 0;
  async function paint() {
    const mine = ++turn,
      rest = turns();
    for (const job of jobs) {
      job();
      await rest();
      if (mine !== turn) return;
    }
    legend.replaceChildren(shareLegend());
    made.root.dataset.painted = "yes";
  }
  page.onTheme(paint);
  return made.root;
}

export function nameOf({ entry }: Pick<Attention, "entry">): string {
  const { label, kind, layer, unit } = entry;
  return `${label} ${kind === "cross" ? "cross-attention" : unit} ${layer + 1}`;
}

/** The name of a head where there is little room: "Dec ×2.1" is the first of the decoder's second cross-attention. */
export function shortNameOf(
  { label, kind, layer }: Pick<AttentionEntry, "label" | "kind" | "layer">,
  head: number,
): string {
  return `${label.slice(0, 3)} ${kind === "cross" ? "×" : ""}${layer + 1}.${head + 1}`;
}
