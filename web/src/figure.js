// A figure: a title, a sentence, a stage to draw on, and behind it a table and the picture as a file.

import { el } from "./dom.js";
import { asSvg, asPng, saved } from "./export.js";

let figuresMade = 0;

/** {root, stage, refresh}; `rows` gives the table's element when it is asked for. */
export function figure({ title, note, rows, tools = [], name }) {
  const id = `figure-${++figuresMade}`,
    stage = el("div", { class: "stage" });
  const holder = el("div", { class: "behind" });
  const details = el(
    "details",
    { class: "numbers", ontoggle: () => refresh() },
    el("summary", {}, "Numbers as a table"),
    holder,
  );
  const file = name || title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const save = (kind, make) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Save “${title}” as ${kind}`,
        onclick: async () => saved(await make(stage, title), `${file}.${kind.toLowerCase()}`),
      },
      kind,
    );
  const root = el(
    "figure",
    { class: "figure", "aria-labelledby": id },
    el(
      "div",
      { class: "head" },
      el("figcaption", { id }, title),
      el("div", { class: "tools" }, tools, save("SVG", asSvg), save("PNG", asPng)),
    ),
    note ? el("p", { class: "note" }, note) : null,
    stage,
    rows ? details : null,
  );
  function refresh() {
    if (details.open && rows) holder.replaceChildren(rows());
  }
  return { root, stage, refresh };
}
