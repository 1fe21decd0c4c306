// The end: logits and probabilities of what the model would say.

import type { Page } from "./page.ts";
import type { OutputEntry } from "./core/payload.ts";
import { el, svg, visible, shortened, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures, percent } from "./core/numbers.ts";
import { figure } from "./figure.ts";

/** The likeliest tokens at a place, from logits and log Σ exp over the whole vocabulary. */
interface Chance {
  id: number;
  word: string;
  logit: number;
  share: number;
}

export function chances(
  page: Page,
  told: OutputEntry,
  place: number,
): { list: Chance[]; target: (Chance & { rank: number }) | null } {
  const { ids, words, logits, normaliser, targets, target_logits, ranks } = told;
  const best = page.open(logits),
    whole = page.open(normaliser).data[place],
    K = best.shape[1];
  const list = ids[place].map((id, n) => ({
    id,
    word: words[id],
    logit: best.data[place * K + n],
    share: Math.exp(best.data[place * K + n] - whole),
  }));
  const target = targets[place];
  if (target === null) return { list, target: null };
  const logit = page.open(target_logits).data[place];
  return {
    list,
    target: { id: target, word: words[target], logit, share: Math.exp(logit - whole), rank: ranks[place] },
  };
}

export function output(page: Page, told: OutputEntry) {
  const tokens = told.sequence ? page.payload.sequences[told.sequence].tokens : null;
  const made = figure({
    title: told.label,
    name: "probabilities",
    note: `Logits and probabilities over ${told.size.toLocaleString("en")} possibilities; the softmax is computed here.`,
    rows: () => {
      const { list, target } = chances(page, told, page.place());
      const rows = target && !list.some((each) => each.id === target.id) ? [...list, target] : list;
      return table(
        "The likeliest",
        [told.unit, "logit", "probability"],
        rows.map(({ word, logit, share }) => [visible(word), logit, percent(share)]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  const draw = () => {
    const place = page.place(),
      { list, target } = chances(page, told, place),
      rows = target && !list.some((each) => each.id === target.id) ? [...list, target] : list;
    const width = Math.max(300, holder.clientWidth || 640),
      left = 130,
      row = 28,
      height = rows.length * row + 30,
      bar = width - left - 150;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "The likeliest, with logits and probabilities",
    });
    root.append(
      svg("text", { class: "axis", x: left, y: 16 }, "probability"),
      svg("text", { class: "axis", x: width - 8, y: 16, "text-anchor": "end" }, "logit"),
    );
    rows.forEach((each, n) => {
      const y = 26 + n * row,
        right = target && each.id === target.id;
      const line = svg(
        "g",
        {},
        svg("rect", { class: "ground", x: 0, y, width, height: row }),
        svg(
          "text",
          {
            class: right ? "piece chosen" : "piece",
            x: left - 12,
            y: y + row / 2,
            "text-anchor": "end",
            "dominant-baseline": "middle",
          },
          shortened(visible(each.word), 15),
        ),
        svg("rect", {
          x: left,
          y: y + 6,
          width: Math.max(1, each.share * bar),
          height: row - 12,
          rx: 3,
          class: "bar",
        }),
        svg(
          "text",
          { class: "number", x: left + each.share * bar + 8, y: y + row / 2, "dominant-baseline": "middle" },
          percent(each.share),
        ),
        svg(
          "text",
          { class: "number", x: width - 8, y: y + row / 2, "text-anchor": "end", "dominant-baseline": "middle" },
          figures(each.logit, 4),
        ),
      );
      root.append(
        tip(line, () =>
          [
            visible(each.word),
            `logit ${figures(each.logit, 6)}`,
            `probability ${figures(each.share, 5)}`,
            right ? `what really came, rank ${target.rank}` : "",
          ].filter(Boolean),
        ),
      );
    });
    const where = tokens ? `${told.drawn ? "After" : "At"} ${visible(tokens[place])}, ` : "";
    sentence.textContent = target
      ? `${where}what came was ${visible(target.word)}, with ${percent(target.share)}, rank ${target.rank}.`
      : `${where ? `${where}the` : "The"} likeliest ${told.unit} is ${visible(list[0].word)}, with ${percent(list[0].share)}.`;
    holder.replaceChildren(root);
    made.refresh();
  };
  page.watch(told.sequence ? [`at.${told.sequence}`] : ["head"], draw, made.root);
  return made.root;
}
