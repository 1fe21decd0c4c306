// A figure: a title, a sentence, a stage to draw on, and behind it a table and the picture as a file.

import { el, swap } from "./dom.ts";
import { roving } from "./keyboard.ts";
import { asSvg, asPng, saved } from "./export.ts";

let figuresMade = 0;

export interface FigureParts {
  title: string;
  note?: string;
  rows?: () => HTMLElement;
  tools?: HTMLElement[];
  name?: string;
}
export interface Figure {
  root: HTMLElement;
  stage: HTMLElement;
  refresh: () => void;
}

/** {root, stage, refresh}; `rows` gives the table's element when it is asked for. */
export function figure({ title, note, rows, tools = [], name }: FigureParts): Figure {
  const id = `figure-${++figuresMade}`,
    stage = el("div", { class: "stage", tabindex: -1 }), // scrolls, and would be a stop of its own in Firefox
    behind = el("div", { class: "behind", id: `${id}-table`, role: "region", tabindex: 0, hidden: true });
  const root = el("figure", { class: "figure", "aria-labelledby": id });
  const file = name || title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  root.dataset.figure = file;
  const caption = el("figcaption", { id }, title);
  const save = (kind: string, make: (root: HTMLElement, title: string) => Promise<Blob>) =>
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Save “${title}” as ${kind}`,
        onclick: async () => saved(await make(root, caption.textContent ?? title), `${file}.${kind.toLowerCase()}`),
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
        onclick: (event: MouseEvent) => {
          behind.hidden = !behind.hidden;
          (event.currentTarget as HTMLElement).setAttribute("aria-expanded", String(!behind.hidden));
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
  root.append(el("div", { class: "head" }, caption, bar));
  if (note) root.append(el("p", { class: "note" }, note));
  root.append(stage);
  if (rows) root.append(behind);
  roving(bar, { press: false })();
  behind.setAttribute("aria-label", `Numbers of “${title}”`);
  function refresh() {
    if (rows && !behind.hidden) swap(behind, rows());
    for (const wide of stage.querySelectorAll<HTMLElement>(".wide")) reachable(wide, title);
  }
  return { root, stage, refresh };
}

/** What scrolls sideways can be scrolled with the keys, too: it is a stop of the tab key unless it has one inside. */
function reachable(wide: HTMLElement, title: string) {
  const inside = wide.querySelector("[tabindex='0'], button") !== null,
    scrolls = wide.scrollWidth > wide.clientWidth + 1 && !inside;
  for (const [name, value] of [
    ["tabindex", "0"],
    ["role", "group"],
    ["aria-label", title],
  ])
    if (scrolls) wide.setAttribute(name, value);
    else wide.removeAttribute(name);
  if (inside) wide.setAttribute("tabindex", "-1"); // Firefox would stop at it as well
}
