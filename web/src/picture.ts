// Pictures: the pixels, the patches that are tokens, and what is looked at laid over them.

import type { Page } from "./page.ts";
import { el, visible, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures, percent } from "./core/numbers.ts";
import { roving } from "./keyboard.ts";
import { pixels, overlaid, hueLegend, gridOf, type Picture } from "./overlay.ts";
import type { Attention } from "./core/attention.ts";
import type { ImageEntry } from "./core/payload.ts";
import { figure } from "./figure.ts";
import { nameOf } from "./glance.ts";

/** Of a row of weights over the sequence, those of the patches. */
function overPatches({ page, entry }: Picture, weights: ArrayLike<number>): number[] {
  return Array.from(weights).slice(page.payload.sequences[entry.sequence].before);
}

/** How far weights of a query may be from PyTorch's, as a share of them: of one head, or at most in several. */
function spreadOf(attention: Attention, i: number, heads: number[]): number {
  return Math.max(...heads.map((head) => attention.weightDoubt(head, i, 1)));
}

export function pictureInput(page: Page, image: ImageEntry) {
  const sequence = page.payload.sequences[image.sequence],
    [rows, columns] = gridOf(page, image),
    plain: Picture = { page, entry: image, image: pixels(page, image) };
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const made = figure({
    title: "The picture and its patches",
    name: "picture",
    note: `${rows} × ${columns} patches, each a token. Choose one by a click or with the arrow keys.`,
    rows: () =>
      table(
        "Patches",
        ["patch", "row", "column"],
        sequence.tokens
          .map((name: string, n: number) => [
            name,
            String(Math.floor((n - sequence.before) / columns) + 1),
            String(((n - sequence.before) % columns) + 1),
          ])
          .slice(sequence.before),
      ),
  });
  const own = sequence.before
    ? el("button", { type: "button", class: "token", onclick: () => page.choose(image.sequence, 0) }, "class token")
    : null;
  made.stage.append(canvas, own ? el("div", { class: "tokens" }, own) : "");
  const chosen = () => page.state.get(`at.${image.sequence}`) - sequence.before;
  const draw = () => {
    overlaid(canvas, plain, Math.min(320, made.stage.clientWidth || 320), null, { grid: true, chosen: chosen() });
    canvas.setAttribute(
      "aria-label",
      `The picture in ${rows} by ${columns} patches; chosen is ${sequence.tokens[page.state.get(`at.${image.sequence}`)]}`,
    );
    if (own) own.setAttribute("aria-pressed", String(chosen() < 0));
  };
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect(),
      column = Math.floor(((event.clientX - box.left) / box.width) * columns),
      row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    page.choose(image.sequence, sequence.before + Math.max(0, Math.min(rows * columns - 1, row * columns + column)));
  });
  canvas.addEventListener("keydown", (event) => {
    const step = ({ ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns } as Record<string, number>)[
      event.key
    ];
    if (step === undefined) return;
    event.preventDefault();
    page.choose(
      image.sequence,
      Math.max(0, Math.min(sequence.tokens.length - 1, page.state.get(`at.${image.sequence}`) + step)),
    );
  });
  page.watch([`at.${image.sequence}`], draw);
  return [made.root, image.shift ? shiftedCopies(page, image, image.shift) : null];
}

/** Shifted patch tokenization: the picture and its four copies, half a patch away each. */
function shiftedCopies(page: Page, entry: ImageEntry, shift: number) {
  const names = ["as it is", "from left above", "from right above", "from left below", "from right below"];
  const moves: [number, number][] = [
    [0, 0],
    [shift, shift],
    [-shift, shift],
    [shift, -shift],
    [-shift, -shift],
  ];
  const made = figure({
    title: "Shifted copies",
    name: "shifted-copies",
    note: `Each token reads its patch in five pictures: the image and four copies moved by ${shift} pixels, half a patch.`,
    rows: () =>
      table(
        "Copies",
        ["copy", "moved right", "moved down"],
        names.map((name, n) => [name, String(moves[n][0]), String(moves[n][1])]),
      ),
  });
  made.stage.append(
    el(
      "div",
      { class: "copies" },
      names.map((name, n) => {
        const canvas = el("canvas", { role: "img", "aria-label": `The picture ${name}` }),
          holder = el("div", {}, canvas, el("span", { class: "under" }, name));
        page.onSize(() =>
          overlaid(canvas, { page, entry, image: pixels(page, entry, ...moves[n]) }, 132, null, { grid: true }),
        );
        return holder;
      }),
    ),
  );
  return made.root;
}

/** What the chosen query of the chosen head looks at, on the picture; for a classifier the rollout too. */
export function pictureLook(page: Page, image: ImageEntry) {
  const { rollout } = page.payload,
    plain: Picture = { page, entry: image, image: pixels(page, image) },
    sequence = page.payload.sequences[image.sequence];
  if (!page.attentions.some(({ entry }) => entry.keys === image.sequence)) return [];
  const canvas = el("canvas", { role: "img" }),
    sentence = el("p", { class: "note" });
  const made = figure({
    title: "On the picture",
    name: "overlay",
    rows: () =>
      table(
        "Weights of the patches",
        ["patch", "weight"],
        shown().map((share, n) => [sequence.tokens[sequence.before + n], figures(share, 4, share * spread())]),
      ),
  });
  const ways: [string, string][] = [["one", "this head"]];
  if (page.attentions.some(({ heads }) => heads > 1)) ways.push(["mean", "mean of this layer's heads"]);
  if (rollout) ways.push(["rollout", "rollout through all layers"]);
  const tabs = ways.map(([way, label]) =>
    el(
      "button",
      { type: "button", class: "tab", "data-way": way, onclick: () => page.state.set({ rollout: way }) },
      label,
    ),
  );
  const group = el("div", { class: "tabs", role: "group", "aria-label": "What is laid over the picture" }, tabs),
    settle = roving(group);
  const legend = el("div", { class: "wide" });
  made.stage.append(sentence, group, canvas, legend);
  const way = () =>
    tabs.some((tab) => tab.dataset.way === page.state.get("rollout")) ? page.state.get("rollout") : "one";
  function shown() {
    const { attention, head, i } = page.look();
    if (rollout && way() === "rollout") {
      const { shape, data } = page.open(rollout),
        row = Math.min(page.state.get(`at.${image.sequence}`), shape[0] - 1);
      return overPatches(plain, data.subarray(row * shape[1], (row + 1) * shape[1]));
    }
    if (way() === "one") return overPatches(plain, attention.weights(head, i));
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      plain,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  }
  function spread() {
    const { attention, head, i } = page.look();
    if (way() === "rollout") return 0;
    return spreadOf(attention, i, way() === "one" ? [head] : [...Array(attention.heads).keys()]);
  }
  const draw = () => {
    const { attention, head, who, i } = page.look(),
      over = attention.entry.keys === image.sequence;
    made.root.hidden = !over;
    if (!over) return;
    const shares = shown();
    tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.way === way())));
    settle();
    overlaid(canvas, plain, Math.min(360, made.stage.clientWidth || 360), shares, {
      chosen: attention.entry.queries === image.sequence ? i - sequence.before : -1,
    });
    group.hidden = tabs.length < 2;
    legend.replaceChildren(hueLegend(Math.max(...shares)));
    sentence.textContent = `${who}, ${way() === "rollout" ? "attention multiplied through all layers" : way() === "mean" ? `mean over the heads of ${nameOf(attention)}` : `${nameOf(attention)}, head ${head + 1}`}: the patch with most weight has ${percent(Math.max(...shares), Math.max(...shares) * spread())}.`;
    canvas.setAttribute("aria-label", sentence.textContent);
    made.refresh();
  };
  tip(canvas, (event) => {
    if (event.clientX === undefined) return null;
    const box = canvas.getBoundingClientRect(),
      [rows, columns] = gridOf(page, image);
    const n =
      Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)) * columns +
      Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    return [`patch ${sequence.tokens[sequence.before + n]}`, `weight ${figures(shown()[n], 4, shown()[n] * spread())}`];
  });
  page.onLook(draw);
  page.state.on(["rollout"], draw);
  return [made.root, ...captionWords(page, plain)];
}

/** Each token of a caption with the part of the picture it was written from. */
function captionWords(page: Page, plain: Picture) {
  const looking = page.attentions.filter(({ entry }) => entry.kind === "cross" && entry.keys === plain.entry.sequence);
  if (!looking.length) return [];
  const attention = looking[looking.length - 1],
    name = attention.entry.queries,
    writes = page.payload.sequences[name].writes ?? [],
    sequence = page.payload.sequences[plain.entry.sequence];
  const mean = (i: number) => {
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      plain,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  };
  const spread = (i: number) => spreadOf(attention, i, [...Array(attention.heads).keys()]);
  const made = figure({
    title: "The region that each token attended to",
    name: "regions",
    note: `The mean over the heads of ${nameOf(attention)}, at the moment each token was written: the more orange, the more weight. Choose one to follow it.`,
    rows: () =>
      table(
        "The patch with the most weight for each token",
        ["token", "patch", "weight"],
        writes.map((word, i) => {
          const shares = mean(i),
            n = shares.indexOf(Math.max(...shares));
          return [visible(word), sequence.tokens[sequence.before + n], figures(shares[n], 4, shares[n] * spread(i))];
        }),
      ),
  });
  const group = el("div", { class: "copies", role: "group", "aria-label": "Tokens of the caption" });
  const buttons = writes.map((word, i) => {
    const canvas = el("canvas", { "aria-hidden": "true" }),
      button = el(
        "button",
        { type: "button", class: "thumb", onclick: () => page.choose(name, i) },
        canvas,
        el("bdi", { class: "under" }, visible(word)),
      );
    page.onSize(() => overlaid(canvas, plain, 112, mean(i)));
    tip(button, () => [
      visible(word),
      `most on patch ${sequence.tokens[sequence.before + mean(i).indexOf(Math.max(...mean(i)))]}: ${percent(Math.max(...mean(i)), Math.max(...mean(i)) * spread(i))}`,
    ]);
    return button;
  });
  group.append(...buttons);
  made.stage.append(group);
  const settle = roving(group);
  page.state.on([`at.${name}`], () => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(page.state.get(`at.${name}`) === i)));
    settle();
  });
  return [made.root];
}
