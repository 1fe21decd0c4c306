// What was changed in the model, and what that did to its output: before, after, difference.

import { el, svg, table, visible, shortened } from "./dom.ts";
import { figure } from "./figure.ts";
import { figures, percent } from "./core/numbers.ts";
import { partName } from "./map.ts";
import { tip } from "./tips.ts";
import type { ChangeEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";

const ROW = 26;

/** What was done, in words. */
export function changedParts({ ablated, patched, patched_heads, note, inputs }: ChangeEntry): string {
  const off = ablated.map(
    ({ part, head, instead, place }) =>
      `${partName(part, head)} ${instead === "mean" ? "replaced by its mean" : "off"}${placeName(place)}`,
  );
  const head = patched_heads?.[0] ?? null;
  return [
    ...(inputs ? [`the input ${inputs[1]} instead of ${inputs[0]}`] : []),
    ...off,
    ...patched.map((part) => `${partName(part, head)} ${note}`),
  ].join("; ");
}

export function placeName(place: number | null | undefined): string {
  return place === null || place === undefined ? "" : ` at token ${place + 1}`;
}

export function change(page: Page, told: ChangeEntry) {
  const places = told.places,
    logs = places && { before: page.open(places.before).data, after: page.open(places.after).data };
  const rows = (places?.came ?? []).map((word, n) => ({
    word,
    before: logs ? logs.before[n] : 0,
    after: logs ? logs.after[n] : 0,
    likeliest: places ? [places.likeliest[0][n], places.likeliest[1][n]] : ["", ""],
  }));
  const total = rows.reduce((sum, { before, after }) => sum + after - before, 0);
  const made = figure({
    title: "Before, after, difference",
    name: "change",
    note: `With ${changedParts(told)}. The log-probabilities are those of the tokens that came before the change, at the same places.`,
    rows: () =>
      table(
        "Each place",
        ["token", "log-probability before", "after", "difference", "likeliest before", "likeliest after"],
        rows.map(({ word, before, after, likeliest }) => [
          visible(word),
          before,
          after,
          figures(after - before, 4),
          ...likeliest.map(visible),
        ]),
      ),
  });
  const same = told.said[0] === told.said[1],
    silent = !told.said.some(Boolean); // nothing was searched for
  made.stage.append(
    el(
      "dl",
      { class: "said", hidden: silent },
      el("dt", {}, "before"),
      el("dd", { id: "said-before" }, el("bdi", {}, told.said[0] || "(nothing)")),
      el("dt", {}, "after"),
      el("dd", { id: "said-after", class: same ? "" : "differs" }, el("bdi", {}, told.said[1] || "(nothing)")),
    ),
    el(
      "p",
      { class: "note" },
      !logs
        ? page.payload.output
          ? "The edited input has another number of places, so only the whole outputs are compared."
          : "This model gives vectors, no probabilities: the figures below show what the change did."
        : `${figures(total, 4)} nats in all${silent ? "" : same ? "; the output stays the same" : "; the output is another"}.`,
    ),
  );
  const holder = el("div", { class: "wide" });
  if (logs) made.stage.append(holder);
  const draw = () => {
    holder.replaceChildren(bars(rows, Math.max(240, holder.clientWidth || 640)));
    made.refresh();
  };
  page.watch([], draw, made.root);
  return made.root;
}

interface Row {
  word: string;
  before: number;
  after: number;
  likeliest: string[];
}

function bars(rows: Row[], width: number): SVGElement {
  const most = Math.max(1e-6, ...rows.map(({ before, after }) => Math.abs(after - before))),
    left = width < 420 ? 84 : 120,
    half = (width - left - (width < 420 ? 84 : 140)) / 2,
    middle = left + half,
    height = rows.length * ROW + 6;
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "How the log-probability of each token changes",
  });
  root.append(svg("line", { class: "zero", x1: middle, x2: middle, y1: 0, y2: height }));
  rows.forEach(({ word, before, after, likeliest }, n) => {
    const y = n * ROW,
      by = after - before,
      long = (Math.abs(by) / most) * half,
      other = likeliest[0] !== likeliest[1];
    root.append(
      tip(
        svg(
          "g",
          {},
          svg("rect", { class: "ground", x: 0, y, width, height: ROW }),
          svg(
            "text",
            { class: "piece", x: left - 12, y: y + ROW / 2, "text-anchor": "end", "dominant-baseline": "middle" },
            shortened(visible(word), 14),
          ),
          svg("rect", {
            class: by < 0 ? "minus" : "plus",
            x: by < 0 ? middle - long : middle,
            y: y + 6,
            width: Math.max(1, long),
            height: ROW - 12,
            rx: 2,
          }),
          svg(
            "text",
            { class: "number", x: middle + half + 12, y: y + ROW / 2, "dominant-baseline": "middle" },
            `${figures(by, 3)}${other && width >= 420 ? ` now ${shortened(visible(likeliest[1]), 10)}` : ""}`,
          ),
        ),
        () => [
          visible(word),
          `before ${percent(Math.exp(before))}, after ${percent(Math.exp(after))}`,
          `log-probability ${figures(before, 5)}, then ${figures(after, 5)}`,
          other ? `likeliest now: ${visible(likeliest[1])}` : "the likeliest token stays",
        ],
      ),
    );
  });
  return root;
}
