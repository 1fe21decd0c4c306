// A figure: a title, a sentence, a stage to draw on, and behind it a table and the picture as a file.

import { el, swap } from "./dom.js";
import { roving } from "./keyboard.js";
import { asSvg, asPng, saved } from "./export.js";

let figuresMade = 0;

/** {root, stage, refresh}; `rows` gives the table's element when it is asked for. */
export function figure({ title, note, rows, tools = [], name }) {
  const id = `figure-${++figuresMade}`,
    stage = el("div", { class: "stage" }),
    behind = el("div", { class: "behind", id: `${id}-table`, role: "region", tabindex: 0, hidden: true });
  const file = name || title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const caption = el("figcaption", { id }, title);
  const save = (kind, make) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Save “${title}” as ${kind}`,
        onclick: async () => saved(await make(root, caption.textContent), `${file}.${kind.toLowerCase()}`),
      },
      kind,
    );
  const numbers =
    rows &&
    el(
      "button",
      {
        type: "button",
        class: "quiet numbers",
        "aria-label": `Numbers of “${title}” as a table`,
        "aria-expanded": "false",
        "aria-controls": behind.id,
        onclick: () => {
          behind.hidden = !behind.hidden;
          numbers.setAttribute("aria-expanded", String(!behind.hidden));
          refresh();
        },
      },
      "Table",
    );
  const bar = el(
    "div",
    { class: "tools", role: "toolbar", "aria-label": `${title}: tools` },
    tools,
    save("SVG", asSvg),
    save("PNG", asPng),
    numbers,
  );
  const root = el(
    "figure",
    { class: "figure", "aria-labelledby": id },
    el("div", { class: "head" }, caption, bar),
    note ? el("p", { class: "note" }, note) : null,
    stage,
    rows ? behind : null,
  );
  roving(bar, { press: false })();
  behind.setAttribute("aria-label", `Numbers of “${title}”`);
  function refresh() {
    if (!behind.hidden) swap(behind, rows());
    for (const wide of stage.querySelectorAll(".wide")) reachable(wide, title);
  }
  return { root, stage, refresh };
}

/** What scrolls sideways can be scrolled with the keys, too: it is a stop of the tab key unless it has one inside. */
function reachable(wide, title) {
  const scrolls = wide.scrollWidth > wide.clientWidth + 1 && !wide.querySelector("[tabindex='0'], button");
  for (const [name, value] of [
    ["tabindex", "0"],
    ["role", "group"],
    ["aria-label", title],
  ])
    scrolls ? wide.setAttribute(name, value) : wide.removeAttribute(name);
}
