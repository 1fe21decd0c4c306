// The search: every candidate as a tree, and its finished hypotheses, ranked anew by another length penalty.

import type { Page } from "./page.ts";
import { el, svg, visible, shortened, swap, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { hex, shareColour } from "./core/colour.ts";
import { figure } from "./figure.ts";
import { linkPath } from "./core/curves.ts";
import { ranked } from "./core/ranking.ts";
import type { TraceEntry } from "./core/payload.ts";
import { placed } from "./core/layout.ts";
import { shareLegend } from "./legend.ts";
import { roving } from "./keyboard.ts";

const LEVELS = 255; // steps in which a search records its attention
const BECAME = { won: "part of the best", ended: "finished", kept: "went on", pruned: "let go" };
const LETTER = 7.9; // pixels, about
const COLUMNS = [86, 112],
  SCORE = 74,
  ROW = 22;

export function search(page: Page, trace: TraceEntry) {
  return [tree(page, trace), looks(page, trace)];
}

function tree(page: Page, trace: TraceEntry) {
  const { state } = page,
    { y, steps } = placed(trace.nodes);
  const back = el(
    "button",
    { type: "button", class: "quiet", onclick: () => state.set({ alpha: trace.alpha }) },
    "as decoded",
  );
  const made = figure({
    title: "The search",
    tools: [back],
    name: "search",
    note: `A beam ${trace.beam} wide: every token it weighed, left to right; faint ones were let go. The winner is decided by log-probability over length penalty.`,
    rows: () =>
      el(
        "div",
        {},
        table(
          "Finished hypotheses",
          ["rank", "score", "log-probability", "tokens", "text"],
          ranked(trace, state.get("alpha")).map((line, n) => [
            String(n + 1),
            line.score,
            line.log_probability,
            String(line.length),
            line.text,
          ]),
        ),
        table(
          "Every candidate",
          ["step", "after", "token", "log-probability", "of the hypothesis so far", "what became of it"],
          trace.nodes.map(({ step, parent, piece, nats, total, status }) => [
            String(step + 1),
            parent === null ? "" : visible(trace.nodes[parent].piece),
            visible(piece),
            nats,
            total,
            BECAME[status],
          ]),
        ),
      ),
  });
  const slider = el("input", {
    type: "range",
    min: 0,
    max: 3,
    step: 0.05,
    id: "alpha",
    value: state.get("alpha"),
    oninput: (event: Event) => state.set({ alpha: Number((event.target as HTMLInputElement).value) }),
  });
  const value = el("output", { for: "alpha" });
  const list = el("ol", { class: "lines" }),
    holder = el("div", { class: "wide" });
  made.root.insertBefore(
    el("div", { class: "control" }, el("label", { for: "alpha" }, "Length penalty α"), slider, value),
    made.stage,
  );
  made.stage.append(holder, list);
  const settle = roving(list);
  const before = new Map(ranked(trace, trace.alpha).map((line, n) => [line.index, n]));
  const draw = () => {
    const alpha = state.get("alpha"),
      order = ranked(trace, alpha),
      won = new Set(order[0] ? order[0].nodes : []),
      ends = new Map(order.map((line, n) => [line.nodes[line.nodes.length - 1], n]));
    const chosen = new Set((trace.lines[state.get("line")] || { nodes: [] }).nodes);
    slider.value = String(alpha);
    value.textContent = figures(alpha, 3);
    const ended = Array.from({ length: steps }, (_, step) =>
        trace.nodes.some((each, n) => each.step === step && ends.has(n)),
      ),
      extra = SCORE * ended.filter(Boolean).length;
    const column = Math.max(COLUMNS[0], Math.min(COLUMNS[1], ((holder.clientWidth || 640) - 50 - extra) / steps)),
      lefts = [24];
    ended.forEach((has, step) => lefts.push(lefts[step] + column + (has ? SCORE : 0)));
    const width = Math.max(320, lefts[steps] + 26),
      height = (Math.max(0, ...y) + 1) * ROW + 20;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "The tree of the search; the table holds its candidates and finished hypotheses",
    });
    const at = (n: number) => ({ x: lefts[trace.nodes[n].step], y: 16 + y[n] * ROW });
    const edges = svg("g"),
      words = svg("g");
    trace.nodes.forEach((each, n) => {
      const to = at(n),
        wide = LETTER * [...shortened(visible(each.piece), 9)].length;
      const from =
        each.parent === null
          ? { x: 2, y: to.y }
          : {
              x: at(each.parent).x + LETTER * [...shortened(visible(trace.nodes[each.parent].piece), 9)].length + 8,
              y: at(each.parent).y,
            };
      const kind = won.has(n) ? "won" : chosen.has(n) ? "chosen" : each.status === "pruned" ? "pruned" : "kept";
      edges.append(svg("path", { class: `edge ${kind}`, d: linkPath(from, { x: to.x - 5, y: to.y }) }));
      const word = svg(
        "g",
        { class: `word ${kind}` },
        svg("text", { x: to.x, y: to.y, "dominant-baseline": "middle" }, shortened(visible(each.piece), 9)),
      );
      const rank = ends.get(n);
      if (rank !== undefined)
        word.append(
          svg(
            "text",
            { class: "rank", x: to.x + wide + 8, y: to.y, "dominant-baseline": "middle" },
            `${rank + 1}. ${figures(order[rank].score)}`,
          ),
        );
      words.append(
        tip(word, () => [
          visible(each.piece),
          `log-probability of the token ${figures(each.nats, 4)}`,
          `of the hypothesis so far ${figures(each.total, 4)}`,
          rank !== undefined ? `score ${figures(order[rank].score, 5)}, rank ${rank + 1}` : BECAME[each.status],
        ]),
      );
    });
    root.append(edges, words);
    swap(holder, root);
    swap(
      list,
      ...order.slice(0, 8).map((line, n) => {
        const was = before.get(line.index) ?? n,
          moved = was === n ? "" : was > n ? `▲ from ${was + 1}` : `▼ from ${was + 1}`;
        return el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              class: "line",
              "data-key": line.index,
              "aria-pressed": String(state.get("line") === line.index),
              onclick: () => state.set({ line: line.index }),
            },
            el("span", { class: "place" }, `${n + 1}.`),
            el("bdi", {}, line.text || "(nothing)"),
            el("span", { class: "score" }, figures(line.score, 4)),
            moved ? el("span", { class: "moved" }, moved) : null,
          ),
        );
      }),
    );
    settle();
    made.refresh();
  };
  page.watch(["alpha", "line"], draw);
  return made.root;
}

/** Where each token of a hypothesis looked in the source: the mean over the heads of the last layer. */
function looks(page: Page, trace: TraceEntry) {
  const { state } = page,
    known = trace.looks.some(Boolean) && trace.source.length && !page.payload.image;
  if (!known) return null;
  const line = () => Math.min(state.get("line"), trace.looks.length - 1);
  const parts = () => {
    const told = trace.lines[line()],
      look = page.open(trace.looks[line()]) ?? { shape: [0, 0], data: new Float32Array() };
    const S = trace.source.length,
      words = told.nodes.map((n: number) => trace.nodes[n].piece);
    const errors = words.map((_, n) => Math.max(...look.data.subarray(n * S, (n + 1) * S)) / (2 * LEVELS));
    return { words, look, S, text: told.text, errors };
  };
  const made = figure({
    title: "What each token attended to",
    name: "alignment",
    note: `For each token that was written, the source: the mean over the heads of the last layer, as the search itself saw it, rounded to 1/${LEVELS} of the row's largest. Choose another hypothesis above.`,
    rows: () => {
      const { words, look, S, errors } = parts();
      return table(
        "Weights",
        ["token written", ...trace.source.map(visible)],
        words.map((word, n) => [
          visible(word),
          ...Array.from(look.data.subarray(n * S, (n + 1) * S), (share) => figures(share, 4, errors[n])),
        ]),
      );
    },
  });
  const holder = el("div", { class: "wide" }),
    legend = el("div", { class: "wide" });
  made.stage.append(holder, legend);
  const draw = () => {
    const { words, look, S, text, errors } = parts(),
      cell = 30,
      left = 96,
      top = 78,
      width = left + S * cell + 8,
      height = top + words.length * cell + 4;
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `What the tokens of ${text} attended to in the source`,
    });
    trace.source.forEach((piece, j) =>
      root.append(
        svg(
          "text",
          { class: "axis", transform: `translate(${left + (j + 0.6) * cell},${top - 8}) rotate(-52)` },
          shortened(visible(piece), 11),
        ),
      ),
    );
    words.forEach((word, n) => {
      root.append(
        svg(
          "text",
          {
            class: "piece",
            x: left - 10,
            y: top + (n + 0.5) * cell,
            "text-anchor": "end",
            "dominant-baseline": "middle",
          },
          shortened(visible(word), 12),
        ),
      );
      for (let j = 0; j < S; j++) {
        const share = look.data[n * S + j];
        root.append(
          tip(
            svg("rect", {
              x: left + j * cell,
              y: top + n * cell,
              width: cell - 2,
              height: cell - 2,
              rx: 3,
              fill: hex(shareColour(share)),
            }),
            () => [`${visible(word)} ← ${visible(trace.source[j])}`, `weight ${figures(share, 4, errors[n])}`],
          ),
        );
      }
    });
    swap(holder, root);
    legend.replaceChildren(shareLegend());
    made.refresh();
  };
  page.watch(["line"], draw);
  return made.root;
}
