// A map of the model: every stack, layer, attention head and network. Choosing a head shows it in all figures.

import { el } from "./dom.ts";
import { roving } from "./keyboard.ts";
import { tip } from "./tips.ts";
import type { MapPart, MapStack, NumberChoice, OriginEntry } from "./core/payload.ts";
import type { Page } from "./page.ts";

const KINDS = {
  self: "self-attention",
  cross: "cross-attention",
  feedforward: "feed-forward",
  embedding: "embedding",
};

/** What is switched off, and how to switch a part on or off; live only. */
export interface Switches {
  active: () => boolean; // whether a click switches, instead of choosing
  isOff: (part: string, head: number | null) => boolean; // everywhere, or at the token that is chosen for it
  toggle: (part: string, head: number | null) => void;
  everyHead: () => void; // have all heads ablated one by one
  checkpoints: () => number; // with which attention can be looked at over training
  overTraining: () => void;
  follow: Follow;
}

/** What gives a number of a look. */
export type Follow = (look: string, number: NumberChoice) => Promise<OriginEntry>;

export interface ModelMap {
  node: HTMLElement;
  settle: () => void;
}

export function partName(part: string, head: number | null): string {
  const layer = /layers\.(\d+|\*)/.exec(part),
    stack = /^(encoder|decoder)\./.exec(part),
    kind = part.split(".").pop() ?? "";
  const where = [stack?.[1], layer ? (layer[1] === "*" ? "every step" : `layer ${Number(layer[1]) + 1}`) : null];
  const what = kind in KINDS ? KINDS[kind as keyof typeof KINDS] : "";
  return [...where, what, head === null ? null : `head ${head + 1}`].filter(Boolean).join(" ");
}

export function modelMap(page: Page, switches: Switches | null): ModelMap {
  const settles: (() => void)[] = [],
    grid = el("div", { class: "map", role: "group", "aria-label": "Parts of the model" });
  const indexOf = (part: string) => page.attentions.findIndex(({ entry }) => entry.tap === part);

  function button(part: MapPart, head: number | null, text: string): HTMLButtonElement {
    const index = indexOf(part.name),
      name = partName(part.name, head);
    const made = el(
      "button",
      {
        type: "button",
        class: head === null ? "box" : "box one",
        "data-part": part.name,
        "data-head": head,
        onclick: () => {
          if (switches?.active()) {
            if (part.ablatable) switches.toggle(part.name, head);
          } else if (index >= 0) page.state.set({ attention: index, head: head ?? page.state.get("head"), key: -1 });
        },
      },
      text,
    );
    settles.push(() => {
      const off = switches?.isOff(part.name, head) ?? false,
        chosen = index >= 0 && page.state.get("attention") === index && page.state.get("head") === head;
      made.classList.toggle("off-now", off);
      made.classList.toggle("chosen", chosen);
      made.setAttribute("aria-pressed", String(switches?.active() ? off : chosen));
      made.setAttribute("aria-label", off ? `${name}, switched off` : name);
      made.setAttribute("aria-disabled", String(switches?.active() ? !part.ablatable : index < 0));
    });
    return tip(made, () => [
      name,
      switches?.active()
        ? part.ablatable
          ? "a click switches it off, or on again"
          : "this part cannot be switched off"
        : index >= 0
          ? "a click shows it in all figures"
          : "the page has no figure of this part",
    ]);
  }

  for (const stack of page.payload.map) grid.append(stackOf(stack, button, switches !== null));
  settles.push(roving(grid, { press: false }));
  const settle = () => settles.forEach((each) => each());
  page.state.on(["attention", "head"], settle);
  return { node: grid, settle };
}

type Button = (part: MapPart, head: number | null, text: string) => HTMLButtonElement;

function stackOf(stack: MapStack, button: Button, live: boolean): HTMLElement {
  const title = stack.name ? stack.name[0].toUpperCase() + stack.name.slice(1) : "Model";
  return el(
    "div",
    { class: "stack-map" },
    el("h3", { class: "small" }, title),
    stack.embedding && live
      ? el(
          "div",
          { class: "row" },
          el("span", { class: "layer" }, "input"),
          button({ name: stack.embedding, kind: "embedding", heads: 0, ablatable: true }, null, "embedding"),
        )
      : null,
    stack.layers.map(({ layer, parts }) =>
      el(
        "div",
        { class: "row" },
        el("span", { class: "layer" }, layer === null ? "each step" : `layer ${layer + 1}`),
        parts.map((part) =>
          el(
            "span",
            { class: "part" },
            button(part, null, part.kind === "feedforward" ? "network" : part.kind),
            Array.from({ length: part.heads }, (_, head) => button(part, head, String(head + 1))),
          ),
        ),
      ),
    ),
  );
}
