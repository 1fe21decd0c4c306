// What position does inside attention: a ramp, a table, or a dial for each pair of dimensions.

import type { Look, Page } from "./page.ts";
import { el, svg, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { turned } from "./core/attention.ts";
import { linePath } from "./core/curves.ts";
import { figure } from "./figure.ts";
import type { Position } from "./core/payload.ts";

/** What distance does in this attention: a ramp, a table, or a dial for each pair of dimensions. */
export function positions(page: Page) {
  const made = figure({
    title: "Where they stand",
    name: "position",
    rows: () => {
      const { attention, head, i, keys } = page.look();
      return table(
        "What position adds to the score",
        ["key", "distance", "term"],
        Array.from({ length: attention.S }, (_, j) => [
          keys[j],
          String(j - i),
          figures(attention.position(head, i, j), 4, attention.positionDoubt(head, i, j)),
        ]),
      );
    },
  });
  const sentence = el("p", { class: "note" }),
    holder = el("div", { class: "wide" });
  made.stage.append(sentence, holder);
  page.onLook(() => {
    const look = page.look(),
      kind = look.attention.entry.position && look.attention.entry.position.kind;
    made.root.hidden = !kind;
    if (!kind) return;
    const width = Math.max(300, holder.clientWidth || 640);
    const rule = look.attention.entry.position;
    holder.replaceChildren(rule?.kind === "rotary" ? dials(look, rule, width, sentence) : ramp(look, width, sentence));
    made.refresh();
  }, made.root);
  return made.root;
}

function ramp({ attention, head, i, j, keys }: Look, width: number, sentence: HTMLElement) {
  const S = attention.S,
    height = 150,
    left = 60,
    values = Array.from({ length: S }, (_, n) => attention.position(head, i, n)).slice(
      0,
      attention.allowed(head, i, S - 1) ? S : i + 1,
    );
  const low = Math.min(...values, 0),
    high = Math.max(...values, 0),
    x = (n: number) => left + ((n + 0.5) / S) * (width - left - 8),
    y = (value: number) => 12 + ((high - value) / (high - low || 1)) * (height - 40);
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "What position adds to the score of each key",
  });
  root.append(svg("line", { class: "zero", x1: left, x2: width - 8, y1: y(0), y2: y(0) }));
  root.append(
    svg("path", {
      class: "curve",
      d: linePath(values.map((value, n) => ({ x: x(n), y: y(value) }))),
    }),
  );
  values.forEach((value, n) =>
    root.append(
      tip(
        svg("circle", {
          class: n === j ? "dot chosen" : "dot",
          cx: x(n),
          cy: y(value),
          r: n === j ? 5 : Math.min(3, 160 / S),
        }),
        () => [keys[n], `distance ${n - i}`, `adds ${figures(value, 5, attention.positionDoubt(head, i, n))}`],
      ),
    ),
  );
  for (const value of [high, low])
    root.append(
      svg(
        "text",
        { class: "axis", x: left - 8, y: y(value) + 4, "text-anchor": "end" },
        figures(value, 3, Math.max(...values.map((_, n) => attention.positionDoubt(head, i, n)))),
      ),
    );
  root.append(
    svg("text", { class: "axis", x: Math.min(x(i), width - 30), y: height - 6, "text-anchor": "middle" }, "the query"),
  );
  const rule = attention.entry.position;
  sentence.textContent =
    rule?.kind === "alibi"
      ? `ALiBi: −${figures(rule.slopes[head])} for each step between query and key, this head's slope.`
      : rule?.kind === "t5"
        ? "T5: a learned term for each bucket of distance, shared by all layers."
        : "Shaw: the query's product with a learned vector for each distance.";
  return root;
}

function dials(
  { attention, head, i, j, queries, keys }: Look,
  rule: Extract<Position, { kind: "rotary" }>,
  width: number,
  sentence: HTMLElement,
) {
  const key = Math.max(j, 0),
    { q, k, doubts } = attention.vectors(head, i, key);
  const E = q.length,
    half = E / 2,
    plain = { q: turned(q, -i, rule), k: turned(k, -key, rule) };
  const size = 46,
    across = Math.max(1, Math.floor(width / size)),
    count = Math.min(half, across * 3),
    height = Math.ceil(count / across) * (size + 14);
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `How far each pair of dimensions is turned between ${queries[i]} and ${keys[key]}`,
  });
  for (let p = 0; p < count; p++) {
    const [a, b] = rule.layout === "interleaved" ? [2 * p, 2 * p + 1] : [p, p + half],
      rate = rule.base ** ((-2 * p) / E),
      angle = (i - key) * rate;
    const cx = (p % across) * size + size / 2,
      cy = Math.floor(p / across) * (size + 14) + size / 2,
      r = size / 2 - 5;
    const before = plain.q[a] * plain.k[a] + plain.q[b] * plain.k[b],
      after = q[a] * k[a] + q[b] * k[b],
      error = 1.5 * ((Math.abs(k[a]) + Math.abs(k[b])) * doubts.q + (Math.abs(q[a]) + Math.abs(q[b])) * doubts.k);
    const dial = svg(
      "g",
      {},
      svg("circle", { class: "dial", cx, cy, r }),
      svg("line", { class: "hand still", x1: cx, y1: cy, x2: cx + r, y2: cy }),
      svg("line", { class: "hand", x1: cx, y1: cy, x2: cx + r * Math.cos(angle), y2: cy - r * Math.sin(angle) }),
      svg("text", { class: "tiny", x: cx, y: cy + r + 12, "text-anchor": "middle" }, figures(after, 2, error)),
    );
    root.append(
      tip(dial, () => [
        `pair ${p + 1}: dimensions ${a + 1} and ${b + 1}`,
        `${figures(rate)} radians a step`,
        `turned by ${figures(angle)} (${figures(((angle % (2 * Math.PI)) * 180) / Math.PI)}°)`,
        `product before turning ${figures(before, 4, error)}`,
        `after ${figures(after, 4, error)}`,
      ]),
    );
  }
  sentence.textContent = `Rotary: between ${queries[i]} and ${keys[key]} lie ${i - key} steps; each pair of dimensions is turned by its own angle. Below each dial, what the pair adds to q·k${count < half ? ` (the first ${count} of ${half} pairs)` : ""}.`;
  return root;
}
