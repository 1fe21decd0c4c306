// Temperature, top-k and top-p, applied to the logits of the chosen place here in the page.

import { el, shortened, svg, table, visible } from "./dom.ts";
import { figure } from "./figure.ts";
import { figures, percent } from "./core/numbers.ts";
import { drawnFrom, softmax } from "./core/sampling.ts";
import { chances } from "./output.ts";
import { tip } from "./tips.ts";
import type { OutputEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";

type Control = "temperature" | "top_k" | "top_p";
const CONTROLS: { key: Control; label: string; min: number; max: number; step: number }[] = [
  { key: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05 },
  { key: "top_k", label: "Top-k (0: all)", min: 0, max: 50, step: 1 },
  { key: "top_p", label: "Top-p", min: 0.05, max: 1, step: 0.05 },
];
const LEFT = 130,
  ROW = 28;

/** The logits of every token at a place; null where the file keeps only the likeliest. */
export function wholeLogits(page: Page, told: OutputEntry, place: number): ArrayLike<number> | null {
  if (!told.whole || place < told.whole.first) return null;
  const { shape, data } = page.open(told.whole.logits),
    row = place - told.whole.first;
  return data.subarray(row * shape[1], (row + 1) * shape[1]);
}

export function sampling(page: Page, told: OutputEntry) {
  const { state } = page;
  const settings = () => ({
    temperature: state.get("temperature"),
    top_k: state.get("top_k"),
    top_p: state.get("top_p"),
  });
  let plain: { place: number; shares: Float64Array } = { place: -1, shares: new Float64Array() }; // at temperature 1: the sliders do not change it
  const computed = () => {
    const place = page.place(),
      logits = wholeLogits(page, told, place);
    if (!logits) return null;
    if (plain.place !== place) plain = { place, shares: softmax(logits) };
    const drawn = drawnFrom(logits, settings()),
      { list } = chances(page, told, place);
    const rows = list.map(({ id, word, logit }) => ({
      word,
      logit,
      before: plain.shares[id],
      after: drawn.left[id],
      kept: drawn.kept[id],
    }));
    return { rows, kept: drawn.kept.filter(Boolean).length, all: logits.length, left: drawn.left };
  };
  const made = figure({
    title: "What a draw chooses from",
    name: "sampling",
    note: "pᵢ = exp(zᵢ / T) / Σ exp(zⱼ / T), over all logits z of this place; then the k likeliest, then the fewest that hold the share p. Temperature changes the shares, never their order.",
    rows: () =>
      table(
        "The likeliest tokens",
        ["token", "logit", "at temperature 1", "after", "kept"],
        (computed()?.rows ?? []).map(({ word, logit, before, after, kept }) => [
          visible(word),
          logit,
          figures(before, 5),
          figures(after, 5),
          kept ? "yes" : "cut off",
        ]),
      ),
  });
  const inputs = CONTROLS.map(({ key, label, ...range }) => {
    const id = `sampling-${key}`,
      value = el("output", { for: id }),
      input = el("input", {
        type: "range",
        id,
        ...range,
        oninput: (event: Event) => state.set({ [key]: Number((event.target as HTMLInputElement).value) }),
      });
    return {
      node: el("div", { class: "control" }, el("label", { for: id }, label), input, value),
      settle: () => {
        input.value = String(state.get(key));
        value.textContent = String(state.get(key));
      },
    };
  });
  const sentence = el("p", { class: "note", "aria-live": "polite" }),
    holder = el("div", { class: "wide" });
  made.root.insertBefore(
    el(
      "div",
      { class: "controls" },
      inputs.map(({ node }) => node),
    ),
    made.stage,
  );
  made.stage.append(sentence, holder);
  const draw = () => {
    for (const { settle } of inputs) settle();
    const found = computed();
    if (!found) {
      sentence.textContent = told.whole
        ? `This file keeps all logits from place ${told.whole.first + 1} on: choose one of these.`
        : "This file keeps the likeliest logits alone, as all of them would make it too large.";
      holder.replaceChildren();
      return;
    }
    let entropy = 0;
    for (const share of found.left) if (share > 0) entropy -= share * Math.log(share);
    sentence.textContent = `${found.kept.toLocaleString("en")} of ${found.all.toLocaleString("en")} tokens are left; entropy ${figures(entropy)} nats.`;
    holder.replaceChildren(bars(found.rows, Math.max(300, holder.clientWidth || 640)));
    made.refresh();
  };
  const keys = CONTROLS.map(({ key }) => key);
  page.watch([...keys, ...(told.sequence ? ([`at.${told.sequence}`] as const) : [])], draw, made.root);
  return made.root;
}

interface Row {
  word: string;
  before: number;
  after: number;
  kept: boolean;
}

function bars(rows: Row[], width: number): SVGElement {
  const height = rows.length * ROW + 6,
    bar = width - LEFT - 80;
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Shares before and after temperature, top-k and top-p",
  });
  rows.forEach(({ word, before, after, kept }, n) => {
    const y = n * ROW;
    root.append(
      tip(
        svg(
          "g",
          {},
          svg("rect", { class: "ground", x: 0, y, width, height: ROW }),
          svg(
            "text",
            { class: "piece", x: LEFT - 12, y: y + ROW / 2, "text-anchor": "end", "dominant-baseline": "middle" },
            shortened(visible(word), 15),
          ),
          svg("rect", { class: "bar", x: LEFT, y: y + 6, width: Math.max(1, after * bar), height: ROW - 12, rx: 3 }),
          svg("rect", {
            class: "outline",
            x: LEFT,
            y: y + 6,
            width: Math.max(1, before * bar),
            height: ROW - 12,
            rx: 3,
          }),
          svg(
            "text",
            {
              class: "number",
              x: LEFT + Math.max(before, after) * bar + 8,
              y: y + ROW / 2,
              "dominant-baseline": "middle",
            },
            kept ? percent(after) : "cut off",
          ),
        ),
        () => [visible(word), `at temperature 1 ${figures(before, 5)}`, kept ? `now ${figures(after, 5)}` : "cut off"],
      ),
    );
  });
  return root;
}
