// Pictures: the pixels, the patches that are tokens, and what is looked at laid over them.

import { el, tip, visible, figures, percent, table, roving } from "./dom.js";
import { fitted, cells, drawCells } from "./canvas.js";
import { figure } from "./figure.js";
import { nameOf } from "./glance.js";

const FRAME = [
  ["#10151d", 4],
  ["#ffffff", 2],
]; // around the chosen patch, to be seen on any picture
const SHADE = 0.86; // over what is not looked at

/** The picture as a canvas of its own pixels, moved by (dx, dy) with nothing where it came from. */
function pixels(page, dx = 0, dy = 0) {
  const {
      shape: [H, W],
      data,
    } = page.open(page.payload.image.pixels),
    [r, g, b] = page.payload.image.outside,
    none = { r, g, b };
  return cells(W, H, (x, y) => {
    const from = ((y - dy) * W + (x - dx)) * 3;
    return y - dy < 0 || y - dy >= H || x - dx < 0 || x - dx >= W
      ? none
      : { r: data[from], g: data[from + 1], b: data[from + 2] };
  });
}

/** Draw the picture as far as it is looked at: of shares (one a patch), the less weight, the darker. */
function overlaid(canvas, page, image, side, shares, { grid = false, chosen = -1 } = {}) {
  const {
      shape: [H, W],
    } = page.open(page.payload.image.pixels),
    height = Math.round((side * H) / W),
    context = fitted(canvas, side, height);
  const {
      grid: [rows, columns],
    } = page.payload.sequences[page.payload.image.sequence],
    wide = side / columns,
    tall = height / rows;
  drawCells(context, image, 0, 0, side, height);
  if (shares) {
    const most = Math.max(1e-9, ...shares);
    context.fillStyle = "#0b0e13";
    shares.forEach((share, n) => {
      context.globalAlpha = SHADE * (1 - Math.sqrt(share / most));
      context.fillRect((n % columns) * wide, Math.floor(n / columns) * tall, wide, tall);
    });
    context.globalAlpha = 1;
  }
  if (grid) {
    context.strokeStyle = "rgba(127,127,127,0.55)";
    context.lineWidth = 0.5;
    for (let n = 1; n < columns; n++) context.strokeRect(n * wide, -1, 0, height + 2);
    for (let n = 1; n < rows; n++) context.strokeRect(-1, n * tall, side + 2, 0);
  }
  for (const [ink, thick] of chosen >= 0 ? FRAME : []) {
    context.strokeStyle = ink;
    context.lineWidth = thick;
    context.strokeRect((chosen % columns) * wide + 2, Math.floor(chosen / columns) * tall + 2, wide - 4, tall - 4);
  }
}

/** Of a row of weights over the sequence, those of the patches. */
function overPatches(page, weights) {
  return Array.from(weights).slice(page.payload.sequences[page.payload.image.sequence].before);
}

export function pictureInput(page) {
  const { image } = page.payload,
    sequence = page.payload.sequences[image.sequence],
    [rows, columns] = sequence.grid,
    plain = pixels(page);
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
          .map((name, n) => [
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
    overlaid(canvas, page, plain, Math.min(320, made.stage.clientWidth || 320), null, { grid: true, chosen: chosen() });
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
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    page.choose(
      image.sequence,
      Math.max(0, Math.min(sequence.tokens.length - 1, page.state.get(`at.${image.sequence}`) + step)),
    );
  });
  page.watch([`at.${image.sequence}`], draw);
  return [made.root, image.shift ? shiftedCopies(page) : null];
}

/** Shifted patch tokenization: the picture and its four copies, half a patch away each. */
function shiftedCopies(page) {
  const { shift } = page.payload.image,
    names = ["as it is", "from left above", "from right above", "from left below", "from right below"];
  const moves = [
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
        page.onSize(() => overlaid(canvas, page, pixels(page, ...moves[n]), 132, null, { grid: true }));
        return holder;
      }),
    ),
  );
  return made.root;
}

/** What the chosen query of the chosen head looks at, on the picture; for a classifier the rollout too. */
export function pictureLook(page) {
  const { image, rollout } = page.payload,
    plain = pixels(page),
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
        shown().map((share, n) => [sequence.tokens[sequence.before + n], share]),
      ),
  });
  const tabs = [
    ["one", "this head"],
    ["mean", "mean of this layer's heads"],
    ...(rollout ? [["rollout", "rollout through all layers"]] : []),
  ].map(([way, label]) =>
    el(
      "button",
      { type: "button", class: "tab", "data-way": way, onclick: () => page.state.set({ rollout: way }) },
      label,
    ),
  );
  const group = el("div", { class: "tabs", role: "group", "aria-label": "What is laid over the picture" }, tabs),
    settle = roving(group);
  made.stage.append(sentence, group, canvas);
  const way = () =>
    tabs.some((tab) => tab.dataset.way === page.state.get("rollout")) ? page.state.get("rollout") : "one";
  function shown() {
    const { attention, head, i } = page.look();
    if (way() === "rollout") {
      const { shape, data } = page.open(rollout),
        row = Math.min(page.state.get(`at.${image.sequence}`), shape[0] - 1);
      return overPatches(page, data.subarray(row * shape[1], (row + 1) * shape[1]));
    }
    if (way() === "one") return overPatches(page, attention.weights(head, i));
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      page,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  }
  const draw = () => {
    const { attention, head, queries, i } = page.look(),
      over = attention.entry.keys === image.sequence;
    made.root.hidden = !over;
    if (!over) return;
    const shares = shown();
    tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.way === way())));
    settle();
    overlaid(canvas, page, plain, Math.min(360, made.stage.clientWidth || 360), shares, {
      chosen: attention.entry.queries === image.sequence ? i - sequence.before : -1,
    });
    sentence.textContent = `${visible(queries[i])}, ${way() === "rollout" ? "attention multiplied through all layers" : way() === "mean" ? `mean over the heads of ${nameOf(attention)}` : `${nameOf(attention)}, head ${head + 1}`}: the brightest patch has ${percent(Math.max(...shares))}.`;
    canvas.setAttribute("aria-label", sentence.textContent);
    made.refresh();
  };
  tip(canvas, (event) => {
    if (event.clientX === undefined) return null;
    const box = canvas.getBoundingClientRect(),
      [rows, columns] = sequence.grid;
    const n =
      Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)) * columns +
      Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns));
    return [`patch ${sequence.tokens[sequence.before + n]}`, `weight ${figures(shown()[n], 4)}`];
  });
  page.onLook(draw);
  page.state.on(["rollout"], draw);
  return [made.root, ...captionWords(page, plain)];
}

/** Each word of a caption with the part of the picture it was written from. */
function captionWords(page, plain) {
  const looking = page.attentions.filter(
    ({ entry }) => entry.kind === "cross" && entry.keys === page.payload.image.sequence,
  );
  if (!looking.length) return [];
  const attention = looking[looking.length - 1],
    name = attention.entry.queries,
    { writes } = page.payload.sequences[name],
    sequence = page.payload.sequences[page.payload.image.sequence];
  const mean = (i) => {
    const rows = Array.from({ length: attention.heads }, (_, h) => attention.weights(h, i));
    return overPatches(
      page,
      rows[0].map((_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length),
    );
  };
  const made = figure({
    title: "Each word and where it looked",
    name: "words",
    note: `The mean over the heads of ${nameOf(attention)}, at the moment each word was written. Choose one to follow it.`,
    rows: () =>
      table(
        "The patch each word looked at most",
        ["word", "patch", "weight"],
        writes.map((word, i) => {
          const shares = mean(i),
            n = shares.indexOf(Math.max(...shares));
          return [visible(word), sequence.tokens[sequence.before + n], shares[n]];
        }),
      ),
  });
  const group = el("div", { class: "copies", role: "group", "aria-label": "Words of the caption" });
  const buttons = writes.map((word, i) => {
    const canvas = el("canvas", { "aria-hidden": "true" }),
      button = el(
        "button",
        { type: "button", class: "thumb", onclick: () => page.choose(name, i) },
        canvas,
        el("bdi", { class: "under" }, visible(word)),
      );
    page.onSize(() => overlaid(canvas, page, plain, 112, mean(i)));
    tip(button, () => [
      visible(word),
      `most on patch ${sequence.tokens[sequence.before + mean(i).indexOf(Math.max(...mean(i)))]}: ${percent(Math.max(...mean(i)))}`,
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
