// A number followed back to the weights that made it: each product, their sum, and PyTorch's number beside it.

import { nameOf } from "./glance.ts";
import { el, shortened, svg, swap, table, visible } from "./dom.ts";
import { figure } from "./figure.ts";
import { figures } from "./core/numbers.ts";
import { roving } from "./keyboard.ts";
import { tip } from "./tips.ts";
import { largestProducts, numberName, productsOf, valueOf, type Products } from "./core/origin.ts";
import { openerOf } from "./core/tensors.ts";
import type { NumberChoice, OriginEntry, OriginRow, OutputEntry } from "./core/payload.ts";
import type { Key, Values } from "./core/state.ts";
import type { Switches } from "./map.ts";
import type { Page } from "./page.ts";

const MOST = 10, // products that are drawn; the table has all of them
  ROW = 26;

/** What the two figures differ in. */
interface Kind {
  title: string;
  name: string;
  note: string;
  hint: string; // what to do while no number is chosen
  keys: Key[];
  tabs: HTMLElement[];
  settle: () => void;
  chosen: () => NumberChoice | null;
  told: (number: NumberChoice) => string;
  values: (number: NumberChoice) => Partial<Values>; // the selection at which it is the chosen one
}

/** A component of the query, key or value of what is looked at. */
export function componentOrigin(page: Page, switches: Switches | null): HTMLElement | null {
  const { state } = page,
    names = { q: "Query", k: "Key", v: "Value" };
  const step = (by: number) => {
    const most = widthOf();
    state.set({ dim: (Math.min(state.get("dim"), most - 1) + by + most) % most });
  };
  const parts = (["q", "k", "v"] as const).map((part) =>
      el("button", { type: "button", class: "tab", onclick: () => state.set({ of: part }) }, part),
    ),
    steps = (
      [
        ["−", -1, "Dimension before"],
        ["+", 1, "Dimension after"],
      ] as const
    ).map(([text, by, label]) =>
      el("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => step(by) }, text),
    );
  const widthOf = () => {
    const { attention, head, i, j } = page.look(),
      { q, v } = attention.vectors(head, i, j);
    return (state.get("of") === "v" ? v : q).length;
  };
  return origin(page, switches, {
    title: "Where a component comes from",
    name: "component",
    note: "A component of a query, key or value is what enters the attention, x, times one row of a weight matrix.",
    hint: "Choose q, k or v of the chosen pair, or a cell of the figure above.",
    keys: [...page.looked(), "of", "dim"],
    tabs: [...parts, ...steps],
    settle: () => {
      for (const button of parts) button.setAttribute("aria-pressed", String(button.textContent === state.get("of")));
      for (const button of steps) button.hidden = !state.get("of");
    },
    chosen: () => {
      const part = state.get("of") as "" | "q" | "k" | "v",
        { attention, head, i, j } = page.look();
      if (!part) return null;
      const index = Math.min(state.get("dim"), widthOf() - 1);
      return { part, token: part === "q" ? i : j, index, attention: attention.entry.name, head, query: i };
    },
    told: ({ part, token, index, attention: name, head }) => {
      const attention = page.attentions.find(({ entry }) => entry.name === name),
        { queries, keys } = attention?.entry ?? { queries: "", keys: "" },
        tokens = page.namesOf(part === "q" ? queries : keys, Infinity);
      return `${names[part as "q"]} of ${tokens[token]}, dimension ${index + 1}, ${attention ? nameOf(attention) : name}, head ${head + 1}`;
    },
    values: ({ part, token, index, attention: name, head, query }) => {
      const attention = page.attentions.findIndex(({ entry }) => entry.name === name),
        { queries } = page.attentions[attention].entry;
      return {
        [`at.${queries}`]: query,
        attention,
        head,
        of: part,
        dim: index,
        ...(part === "q" ? {} : { key: token }),
      };
    },
  });
}

/** The logit of one of the likeliest tokens. */
export function logitOrigin(page: Page, switches: Switches | null, output: OutputEntry): HTMLElement | null {
  const { state } = page,
    key = output.sequence ? ([`at.${output.sequence}`] as const) : [];
  const word = (id: number) => visible(output.words[id] ?? String(id));
  const tabs = output.ids[0].map(() => el("button", { type: "button", class: "tab" }));
  for (const tab of tabs) tab.addEventListener("click", () => state.set({ logit: Number(tab.value) }));
  return origin(page, switches, {
    title: "Where a logit comes from",
    name: "logit",
    note: "A logit is the last vector, x, times one row of the output layer's matrix.",
    hint: "Choose one of the likeliest.",
    keys: [...key, "logit"],
    tabs,
    settle: () =>
      output.ids[page.place()].forEach((id, n) => {
        tabs[n].value = String(id);
        tabs[n].textContent = shortened(word(id), 12);
        tabs[n].setAttribute("aria-pressed", String(id === state.get("logit")));
      }),
    chosen: () => {
      const index = state.get("logit");
      return index < 0 || index >= output.size
        ? null
        : { part: "logit", token: page.place(), index, attention: "", head: 0, query: 0 };
    },
    told: ({ token, index }) => {
      const tokens = output.sequence ? page.payload.sequences[output.sequence].tokens : null;
      return `Logit of ${word(index)}${tokens ? ` after ${visible(tokens[token])}` : ""}`;
    },
    values: ({ token, index }) => ({ logit: index, ...(output.sequence ? { [`at.${output.sequence}`]: token } : {}) }),
  });
}

/** Whether numbers can be followed: a server does it, and a file has those that were followed before it was saved. */
export function followed(page: Page, switches: Switches | null): boolean {
  return Boolean(switches) || (page.payload.origins ?? []).length > 0;
}

function origin(page: Page, switches: Switches | null, kind: Kind): HTMLElement | null {
  const { payload } = page,
    follow = switches?.follow,
    logits = kind.name === "logit",
    kept = () => (payload.origins ?? []).filter(({ number }) => (number.part === "logit") === logits);
  if (!follow && !kept().length) return null;
  let shown: OriginEntry | null = null,
    turn = 0;
  const made = figure({
    title: kind.title,
    name: kind.name,
    note: kind.note,
    tools: follow ? kind.tabs : [],
    rows: () => table(shown ? kind.told(shown.number) : kind.hint, ["", "x", "weight", "product"], rowsOf(shown)),
  });
  const sentence = el("p", { class: "note", role: "status" }),
    holder = el("div", { class: "wide" }),
    others = el("div", { class: "tokens", role: "group", "aria-label": "Numbers that this file has" }),
    settleOthers = roving(others, { press: false });
  made.stage.append(sentence, others, holder);
  const show = (entry: OriginEntry | null, text: string) => {
    shown = entry;
    sentence.textContent = text;
    swap(holder, ...(entry ? drawn(entry, Math.max(300, holder.clientWidth || 640)) : []));
    made.refresh();
  };
  const offer = (number: NumberChoice | null) => {
    if (follow) return;
    const buttons = kept().map((each) =>
      el(
        "button",
        {
          type: "button",
          class: "token",
          "data-key": numberName(each.number),
          "aria-pressed": String(number !== null && numberName(each.number) === numberName(number)),
          onclick: () => page.state.set(kind.values(each.number)),
        },
        kind.told(each.number),
      ),
    );
    swap(others, ...buttons);
    settleOthers();
  };
  const draw = async () => {
    const now = ++turn,
      number = kind.chosen();
    kind.settle();
    offer(number);
    if (!number) return show(null, kind.hint);
    let entry = kept().find((each) => numberName(each.number) === numberName(number));
    if (!entry && !follow)
      return show(null, "This file has the numbers above alone: those that were followed before it was saved.");
    try {
      if (!entry && follow) {
        entry = await follow(payload.look ?? "", number);
        (payload.origins ??= []).push(entry);
      }
    } catch (error) {
      if (now === turn) show(null, error instanceof Error ? error.message : String(error));
      return;
    }
    if (now === turn && entry) show(entry, sentenceOf(entry, kind.told(number)));
  };
  page.watch(kind.keys, () => void draw(), made.root);
  return made.root;
}

function opened({ rows, tensors }: OriginEntry): Products[] {
  const open = openerOf(tensors);
  return rows.map((row) => productsOf(row, open));
}

/** The number as it is computed here, and how far that is from PyTorch's. */
function computed(entry: OriginEntry): { value: number; off: number } {
  const value = valueOf(
    entry,
    opened(entry).map(({ total }) => total),
  );
  return { value, off: Math.abs(value - entry.value) };
}

function sentenceOf(entry: OriginEntry, name: string): string {
  const { value, off } = computed(entry);
  return `${name}: ${figures(value, 5, off)}. PyTorch has ${figures(entry.value, 5)}; the difference is ${off ? figures(off, 2) : "0"}.`;
}

/** The row as PyTorch's users write it. */
function rowName({ weight, shape }: OriginEntry, { row }: OriginRow): string {
  return `${weight}[${row}] (of ${shape.join(" × ")})`;
}

/** What becomes of the sums, as formulas; null where the sum is the number. */
function after(entry: OriginEntry, sums: Products[]): string | null {
  const { rows } = entry;
  if (rows.every(({ factor, norm }) => factor === 1 && !norm)) return null;
  const parts = rows.map(({ factor, norm }, n) => {
    const sum = figures(sums[n].total, 5, sums[n].doubt),
      normed = norm
        ? `((${sum} − ${figures(norm.mean, 5)}) / ${figures(norm.root, 5)} · ${figures(norm.gain, 5)} + ${figures(norm.shift, 5)})`
        : sum;
    return factor === 1 ? normed : `${figures(factor, 5)} · ${normed}`;
  });
  const { value, off } = computed(entry),
    why = rows.length > 1 ? "Turned by the position of the token: " : "Then: ";
  return `${why}${parts.join(" + ")} = ${figures(value, 5, off)}`;
}

/** Every product and sum. */
function rowsOf(entry: OriginEntry | null): string[][] {
  if (!entry) return [];
  const sums = opened(entry),
    several = entry.rows.length > 1;
  const rows = entry.rows.flatMap((row, n) => [
    ...sums[n].all.map(({ d, x, w, product }) => [
      `${several ? `[${row.row}] ` : ""}dimension ${d + 1}`,
      ...[x, w, product].map((value) => figures(value, 5)),
    ]),
    ...closing(row, sums[n]).map(([label, value]) => [label, "", "", value]),
  ]);
  const { value, off } = computed(entry);
  if (after(entry, sums) !== null)
    rows.push(["the number", "", "", figures(value, 5, off)], ["PyTorch", "", "", figures(entry.value, 5)]);
  return rows;
}

function closing({ bias, out }: OriginRow, { total, doubt }: Products): [string, string][] {
  return [
    ...(bias === null ? [] : [["bias", figures(bias, 5)] as [string, string]]),
    ["sum", figures(total, 5, doubt)],
    ["PyTorch", figures(out, 5)],
  ];
}

function drawn(entry: OriginEntry, width: number): (HTMLElement | SVGElement)[] {
  const sums = opened(entry),
    end = after(entry, sums);
  return [
    ...entry.rows.flatMap((row, n) => [
      el("p", { class: "note origin" }, `x · ${rowName(entry, row)}`),
      productBars(row, sums[n], width),
    ]),
    ...(end ? [el("p", { class: "note origin" }, end)] : []),
  ];
}

/** The largest products as bars, the sum of the others, the bias and the sum. */
function productBars(row: OriginRow, sums: Products, width: number): SVGElement {
  const { shown, others, rest } = largestProducts(sums.all, MOST),
    narrow = width < 480,
    lines: { label: string; cells: string[]; value: number | null; text: string }[] = [
      ...shown.map(({ d, x, w, product }) => ({
        label: narrow ? String(d + 1) : `dimension ${d + 1}`,
        cells: [figures(x, 5), figures(w, 5)],
        value: product,
        text: figures(product, 5),
      })),
      ...[...(others ? [[`${others} others`, figures(rest, 5)]] : []), ...closing(row, sums)].map(([label, text]) => ({
        label,
        cells: [],
        value: null,
        text,
      })),
    ];
  const left = narrow ? 84 : 108,
    column = narrow ? 72 : 90,
    start = left + 2 * column,
    bar = Math.max(8, width - start - 84),
    most = Math.max(1e-30, ...lines.map(({ value }) => Math.abs(value ?? 0))),
    height = 26 + lines.length * ROW;
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "The largest products, the sum of the others, and the sum; the table has every product",
  });
  const write = (text: string, x: number, y: number, kind: string, anchor = "end") =>
    svg("text", { class: kind, x, y, "text-anchor": anchor, "dominant-baseline": "middle" }, text);
  if (narrow) root.append(write("dimension", left - 14, 14, "axis"));
  ["x", "weight"].forEach((title, n) => root.append(write(title, left + (n + 1) * column - 10, 14, "axis")));
  root.append(write("product", start + 4, 14, "axis", "start"));
  lines.forEach(({ label, cells, value, text }, n) => {
    const y = 26 + n * ROW,
      middle = y + ROW / 2,
      long = value === null ? 0 : Math.max(1, (Math.abs(value) / most) * bar),
      line = svg("g", {}, svg("rect", { class: "ground", x: 0, y, width, height: ROW }));
    line.append(write(label, left - 14, middle, value === null ? "piece" : "axis"));
    cells.forEach((cell, m) => line.append(write(cell, left + (m + 1) * column - 10, middle, "number")));
    if (value !== null)
      line.append(
        svg("rect", { class: value < 0 ? "minus" : "plus", x: start, y: middle - 6, width: long, height: 12, rx: 2 }),
      );
    line.append(write(text, start + (value === null ? 4 : long + 6), middle, "number", "start"));
    root.append(
      cells.length ? tip(line, () => [label, `x ${cells[0]}`, `weight ${cells[1]}`, `product ${text}`]) : line,
    );
  });
  return root;
}
