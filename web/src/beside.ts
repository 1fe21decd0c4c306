// Two models, one picture: another run, or another checkpoint, that reads the same tokens; and the difference.

import { el, shortened, svg, swap, table, visible } from "./dom.ts";
import { Attention } from "./core/attention.ts";
import { openerOf } from "./core/tensors.ts";
import { counterpart, distance, sameTokens } from "./core/pair.ts";
import { shareColour, signedColour } from "./core/colour.ts";
import { figures, percent } from "./core/numbers.ts";
import { choices } from "./keyboard.ts";
import { chances } from "./output.ts";
import { figure } from "./figure.ts";
import { heat } from "./heat.ts";
import { nameOf, shortNameOf } from "./glance.ts";
import { shareLegend, signedLegend } from "./legend.ts";
import { tip } from "./tips.ts";
import type { OtherEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";

const SHOWN = 8; // heads that are listed
const ROW = 26;

/** What a model of the page is called, short: its step where both are of one run. */
export function modelNames(page: Page, other: OtherEntry): [string, string] {
  const own = page.payload,
    step = (steps: number[]) =>
      steps.length ? `step ${steps.map((each) => each.toLocaleString("en")).join(", ")}` : "";
  if (own.run === other.run) return [step(own.steps), step(other.steps)];
  const name = (run: string) => run.replace(/\/+$/, "").split("/").pop() || run;
  return name(own.run) === name(other.run) ? [own.run, other.run] : [name(own.run), name(other.run)];
}

class Pair {
  readonly attentions: Attention[];
  readonly names: [string, string];

  constructor(
    readonly page: Page,
    readonly other: OtherEntry,
  ) {
    const open = openerOf(other.tensors);
    this.attentions = other.attentions.map((entry) => new Attention(entry, open));
    this.names = modelNames(page, other);
  }

  /** The second model's attention for one of the page's; null where it has none like it. */
  of(own: Attention): Attention | null {
    return this.attentions[counterpart(own, this.attentions)] ?? null;
  }

  /** Tokens of the second model's queries or keys. */
  tokens(attention: Attention, which: "queries" | "keys"): string[] {
    const count = which === "queries" ? attention.T : attention.S;
    return (this.other.sequences[attention.entry[which]]?.tokens ?? []).slice(0, count).map(visible);
  }

  comparable(own: Attention, other: Attention): boolean {
    const { sequences } = this.page.payload,
      mine = {
        queries: sequences[own.entry.queries].tokens.slice(0, own.T).map(visible),
        keys: sequences[own.entry.keys].tokens.slice(0, own.S).map(visible),
      };
    return sameTokens(mine, { queries: this.tokens(other, "queries"), keys: this.tokens(other, "keys") });
  }
}

export function besides(page: Page, other: OtherEntry): (HTMLElement | null)[] {
  const pair = new Pair(page, other);
  return [
    said(pair),
    ...(page.attentions.length && pair.attentions.length ? [pictures(pair), ranking(pair)] : []),
    ...(outputs(pair) ?? []),
  ];
}

function said({ page, other, names }: Pair): HTMLElement | null {
  if (!page.payload.said && !other.said) return null;
  const line = (name: string, text: string) => [el("dt", {}, name), el("dd", {}, el("bdi", {}, text || "–"))];
  return el("dl", { class: "said" }, line(names[0], page.payload.said), line(names[1], other.said));
}

function pictures(pair: Pair): HTMLElement {
  const { page, names } = pair,
    three = [heat(), heat(), heat()],
    titles = [el("h3", { class: "small" }), el("h3", { class: "small" }), el("h3", { class: "small" })],
    holders = three.map(({ node }, n) => el("div", { class: "one" }, titles[n], node)),
    note = el("p", { class: "note" }),
    legend = el("div", { class: "wide" });
  const now = () => {
    const { attention, head, i, j, queries, keys } = page.look(),
      other = pair.of(attention);
    return { attention, head, i, j, queries, keys, other, otherHead: Math.min(head, (other?.heads ?? 1) - 1) };
  };
  const made = figure({
    title: "One head in both",
    name: "two-models",
    note: "The same head on the same tokens: queries down, keys across. Choose a head above, or in the list below.",
    rows: () => {
      const { attention, head, i, other, otherHead, queries, keys } = now();
      const own = attention.weights(head, i),
        theirs = other ? other.weights(otherHead, Math.min(i, other.T - 1)) : new Float32Array();
      return table(
        `Weights of ${queries[i]}`,
        ["key", ...names, "difference"],
        keys.map((key, n) => [
          key,
          own[n],
          theirs[n] ?? "–",
          theirs[n] === undefined ? "–" : figures(theirs[n] - own[n], 4),
        ]),
      );
    },
  });
  made.stage.append(note, el("div", { class: "three" }, holders), legend);
  page.onLook(() => {
    const { attention, head, i, j, other, otherHead, queries, keys } = now(),
      room = made.stage.clientWidth || 900,
      width = room > 760 ? (room - 60) / 3 : room;
    const pick = (row: number, column: number) =>
      page.state.set({ [`at.${attention.entry.queries}`]: row, key: column });
    if (!other) {
      note.textContent = `${names[1]} has no attention like ${nameOf(attention)}.`;
      for (const holder of holders) holder.hidden = true;
      return;
    }
    const same = pair.comparable(attention, other),
      own = rowsOf(attention, head),
      theirs = rowsOf(other, otherHead);
    note.textContent = `${nameOf(attention)}, head ${head + 1}. ${same ? "" : "The two read different tokens here, so their weights cannot be subtracted."}`;
    const weightOf = (rows: Float32Array[], row: number, column: number) => `weight ${figures(rows[row][column], 4)}`;
    titles[0].textContent = names[0];
    titles[1].textContent = names[1];
    titles[2].textContent = `${names[1]} − ${names[0]}`;
    holders.forEach((holder, n) => (holder.hidden = n === 2 && !same));
    three[0].draw(
      {
        label: `Weights of ${names[0]}`,
        rows: queries,
        columns: keys,
        colour: (row, column) => shareColour(own[row][column]),
        chosen: { row: i, column: j },
        lines: (row, column) => [`${queries[row]} → ${keys[column]}`, weightOf(own, row, column)],
        pick,
      },
      width,
    );
    const [rows, columns] = [pair.tokens(other, "queries"), pair.tokens(other, "keys")];
    three[1].draw(
      {
        label: `Weights of ${names[1]}`,
        rows: same ? queries : rows,
        columns: same ? keys : columns,
        colour: (row, column) => shareColour(theirs[row][column]),
        chosen: { row: Math.min(i, rows.length - 1), column: Math.min(j, columns.length - 1) },
        lines: (row, column) => [`${rows[row]} → ${columns[column]}`, weightOf(theirs, row, column)],
        pick: same ? pick : () => {},
      },
      width,
    );
    const most = Math.max(
      0.01,
      ...own.flatMap((row, n) => (same ? [...row].map((w, m) => Math.abs(theirs[n][m] - w)) : [])),
    );
    if (same)
      three[2].draw(
        {
          label: `Difference of the weights, ${names[1]} minus ${names[0]}`,
          rows: queries,
          columns: keys,
          colour: (row, column) => signedColour(theirs[row][column] - own[row][column], most),
          chosen: { row: i, column: j },
          lines: (row, column) => [
            `${queries[row]} → ${keys[column]}`,
            `${figures(theirs[row][column], 4)} − ${figures(own[row][column], 4)} = ${figures(theirs[row][column] - own[row][column], 3)}`,
          ],
          pick,
        },
        width,
      );
    legend.replaceChildren(
      shareLegend(),
      ...(same ? [el("p", { class: "note" }, "and of the difference:"), signedLegend(most)] : []),
    );
    made.refresh();
  }, made.root);
  return made.root;
}

function rowsOf(attention: Attention, head: number): Float32Array[] {
  return Array.from({ length: attention.T }, (_, i) => attention.weights(head, i));
}

interface Different {
  index: number;
  head: number;
  name: string;
  short: string;
  by: number;
}

/** The heads that differ most between the two, over the rows that the page keeps of each. */
function ranking(pair: Pair): HTMLElement {
  const { page, names } = pair;
  let found: Different[] | null = null;
  const list = () =>
    (found ??= page.attentions
      .flatMap((own, index): Different[] => {
        const other = pair.of(own);
        if (!other || !pair.comparable(own, other)) return [];
        return Array.from({ length: Math.min(own.heads, other.heads) }, (_, head) => ({
          index,
          head,
          name: `${nameOf(own)}, head ${head + 1}`,
          short: shortNameOf(own.entry, head),
          by: distance(own, head, other, head, own.entry.rows),
        }));
      })
      .sort((a, b) => b.by - a.by));
  const made = figure({
    title: "Heads that differ most",
    name: "heads-that-differ",
    note: `Half the sum of |a − b| over the keys, on average over the queries: 0 where ${names[0]} and ${names[1]} attend alike, 1 where they share no key.`,
    rows: () =>
      table(
        "All heads",
        ["head", "difference"],
        list().map(({ name, by }) => [name, figures(by, 3)]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.onLook(() => {
    const shown = list().slice(0, SHOWN),
      width = Math.max(300, holder.clientWidth || 640),
      left = width < 480 ? 84 : 272,
      bar = Math.max(30, width - left - 70);
    made.root.hidden = !shown.length;
    const height = shown.length * ROW + 4,
      root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    const items = shown.map(({ index, head, name, short, by }, n) => {
      const chosen = page.state.get("attention") === index && page.state.get("head") === head;
      const line = hbar({
        name: width < 480 ? short : shortened(name, 36),
        share: by,
        y: n * ROW,
        left,
        bar,
        width,
        chosen,
      });
      root.append(line);
      return {
        node: line,
        name: `${name}: ${percent(by)}`,
        key: `${index} ${head}`,
        chosen,
        lines: () => [name, `difference ${figures(by, 3)}`],
        choose: () => page.state.set({ attention: index, head }),
      };
    });
    if (items.length) choices(root, items, { label: "Heads by how much they differ" });
    swap(holder, root);
    made.refresh();
  }, made.root);
  return made.root;
}

interface Bar {
  name: string;
  share: number;
  y: number;
  left: number;
  bar: number;
  width: number;
  chosen: boolean;
}

/** A row of a bar chart: a name, a bar from 0 to 1, its share. */
export function hbar({ name, share, y, left, bar, width, chosen }: Bar): SVGGElement {
  const middle = y + ROW / 2 - 1;
  return svg(
    "g",
    { class: chosen ? "line chosen" : "line" },
    svg("rect", { class: "ground", x: 0, y, width, height: ROW - 2, rx: 4 }),
    svg("text", { class: "piece", x: left - 12, y: middle, "text-anchor": "end", "dominant-baseline": "middle" }, name),
    svg("rect", { x: left, y: y + 5, width: Math.max(1, share * bar), height: ROW - 12, rx: 3, class: "bar" }),
    svg(
      "text",
      { class: "number", x: left + share * bar + 8, y: middle, "dominant-baseline": "middle" },
      percent(share),
    ),
  );
}

/** What both give to the tokens that are written; nothing where their places do not correspond. */
function outputs({ page, other, names }: Pair): HTMLElement[] | null {
  const own = page.payload.output,
    theirs = other.output;
  if (!own || !theirs || own.targets.length !== theirs.targets.length) return null;
  const second = { payload: other, open: openerOf(other.tensors) } as unknown as Page;
  const rows = own.targets.flatMap((target, place) => {
    const a = chances(page, own, place),
      b = chances(second, theirs, place);
    if (target === null || !a.target || !b.target || a.target.word !== b.target.word) return [];
    return [
      {
        place,
        word: visible(a.target.word),
        a: a.target.share,
        b: b.target.share,
        first: [a.list[0].word, b.list[0].word],
      },
    ];
  });
  if (!rows.length) return null;
  const made = figure({
    title: "The probability of each token in both",
    name: "two-outputs",
    note: "Of the tokens that came, at the same places.",
    rows: () =>
      table(
        "Each place",
        ["token", names[0], names[1], `likeliest, ${names[0]}`, `likeliest, ${names[1]}`],
        rows.map(({ word, a, b, first }) => [word, figures(a, 4), figures(b, 4), ...first.map(visible)]),
      ),
  });
  const holder = el("div", { class: "wide" });
  made.stage.append(holder);
  page.watch(
    [],
    () => {
      const width = Math.max(300, holder.clientWidth || 640),
      left = 110,
      bar = width - left - 70,
      apart = width < 480 ? 110 : 170,
      height = rows.length * (ROW + 8) + 24,
      root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": made.root.querySelector("figcaption")?.textContent ?? "" }); // prettier-ignore
      names.forEach((name, n) =>
        root.append(
          svg("rect", { x: left + n * apart, y: 4, width: 12, height: 10, rx: 2, class: n ? "minus" : "plus" }),
          svg("text", { class: "axis", x: left + n * apart + 18, y: 14 }, shortened(name, 18)),
        ),
      );
      rows.forEach(({ word, a, b, first }, n) => {
        const y = 24 + n * (ROW + 8);
        const group = svg(
          "g",
          {},
          svg("rect", { class: "ground", x: 0, y, width, height: ROW + 6 }),
          svg("text", { class: "piece", x: left - 12, y: y + 15, "text-anchor": "end", "dominant-baseline": "middle" }, shortened(word, 12)), // prettier-ignore
          [a, b].map((share, m) => [
            svg("rect", { x: left, y: y + 3 + m * 12, width: Math.max(1, share * bar), height: 10, rx: 2, class: m ? "minus" : "plus" }), // prettier-ignore
            svg("text", { class: "number", x: left + share * bar + 6, y: y + 9 + m * 12, "dominant-baseline": "middle" }, percent(share)), // prettier-ignore
          ]),
        );
        root.append(
          tip(group, () => [
            word,
            `${names[0]} ${percent(a)}, likeliest ${visible(first[0])}`,
            `${names[1]} ${percent(b)}, likeliest ${visible(first[1])}`,
          ]),
        );
      });
      holder.replaceChildren(root);
      made.refresh();
    },
    made.root,
  );
  return [made.root];
}
