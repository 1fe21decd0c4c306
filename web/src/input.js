// The beginning: tokens, their vectors, and where they stand.

import { el, tip, visible, figures, table } from "./dom.js";
import { fitted, cells, drawCells } from "./canvas.js";
import { signedColour } from "./colour.js";
import { figure } from "./figure.js";
import { tokenStrip } from "./tokens.js";

const ROW = 14,
  LEFT = 84;

export function inputs(page) {
  return Object.keys(page.payload.sequences)
    .filter((name) => !page.payload.sequences[name].grid)
    .map((name) => {
      const { label, tokens } = page.payload.sequences[name];
      return el(
        "div",
        { class: "sequence" },
        el("h3", {}, label, el("small", {}, `${tokens.length} tokens`)),
        tokenStrip(page, name).node,
      );
    });
}

/** A tensor (T, D) as rows of coloured cells with tokens beside them. */
export function strips(page, { title, note, tensors, sequence, name }) {
  const tokens = page.payload.sequences[sequence].tokens;
  let chosen = 0;
  const canvas = el("canvas", { role: "img", tabindex: 0 });
  const tabs = tensors.map(({ label }, n) =>
    el(
      "button",
      {
        type: "button",
        class: "tab",
        "aria-pressed": String(!n),
        onclick: () => {
          chosen = n;
          draw();
        },
      },
      label,
    ),
  );
  const made = figure({
    title,
    note,
    name,
    rows: () => {
      const { shape, data } = tensors[chosen].tensor(),
        at = Math.min(page.state.get(`at.${sequence}`), shape[0] - 1);
      return table(
        `${tensors[chosen].label} of ${visible(tokens[at])}`,
        ["dimension", "value"],
        Array.from({ length: shape[1] }, (_, d) => [String(d + 1), data[at * shape[1] + d]]),
      );
    },
  });
  made.stage.append(
    el("div", { class: "tabs", role: "group", "aria-label": title }, tensors.length > 1 ? tabs : []),
    el("div", { class: "wide" }, canvas),
  );
  function draw() {
    const {
      shape: [T, D],
      data,
    } = tensors[chosen].tensor();
    const width = Math.max(200, made.stage.clientWidth || 600),
      row = Math.min(ROW, 560 / T);
    const context = fitted(canvas, width, T * row),
      style = getComputedStyle(canvas);
    let most = 0;
    for (const value of data) most = Math.max(most, Math.abs(value));
    drawCells(
      context,
      cells(D, T, (x, y) => signedColour(data[y * D + x], most)),
      LEFT,
      0,
      width - LEFT,
      T * row,
    );
    context.font = `12px ${style.fontFamily}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = Math.ceil(13 / row),
      at = page.state.get(`at.${sequence}`);
    for (let t = 0; t < T; t++) {
      if (t % every && t !== at) continue;
      context.fillStyle = style.getPropertyValue(t === at ? "--accent" : "--ink-2");
      context.fillText(visible(tokens[t] ?? "").slice(0, 11), LEFT - 8, (t + 0.5) * row);
    }
    tabs.forEach((tab, n) => tab.setAttribute("aria-pressed", String(n === chosen)));
    canvas.setAttribute(
      "aria-label",
      `${tensors[chosen].label}: ${T} tokens by ${D} dimensions, from ${figures(-most)} to ${figures(most)}. The table holds one token's numbers.`,
    );
    made.refresh();
  }
  function cellAt(event) {
    const {
        shape: [T, D],
      } = tensors[chosen].tensor(),
      box = canvas.getBoundingClientRect();
    const t = Math.floor(((event.clientY - box.top) / box.height) * T),
      d = Math.floor(((event.clientX - box.left - LEFT) / (box.width - LEFT)) * D);
    return t >= 0 && t < T && d >= 0 && d < D ? { t, d, D } : null;
  }
  tip(canvas, (event) => {
    const cell = event.clientX === undefined ? null : cellAt(event);
    return (
      cell && [
        visible(tokens[cell.t] ?? ""),
        `dimension ${cell.d + 1}: ${figures(tensors[chosen].tensor().data[cell.t * cell.D + cell.d], 4)}`,
      ]
    );
  });
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) page.choose(sequence, cell.t);
  });
  page.watch([`at.${sequence}`], draw);
  return made.root;
}

export function embeddings(page) {
  return page.payload.stacks
    .filter((stack) => stack.input.length)
    .map((stack) =>
      strips(page, {
        title: `${stack.label}: what goes in`,
        name: `${stack.label}-input`.toLowerCase(),
        sequence: stack.sequence,
        note: `A row a token, a column a dimension. ${stack.positions}`,
        tensors: stack.input.map(({ label, tensor }) => ({ label, tensor: () => page.open(tensor) })),
      }),
    );
}
