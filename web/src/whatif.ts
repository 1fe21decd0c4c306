// What happens with a head switched off: computed beforehand for this input, one head at a time.

import type { Page } from "./page.ts";
import { el, visible, swap, table } from "./dom.ts";
import { tip } from "./tips.ts";
import { figures } from "./core/numbers.ts";
import { roving } from "./keyboard.ts";
import { hex, signedColour, inkOn } from "./core/colour.ts";
import { figure } from "./figure.ts";
import { signedLegend } from "./legend.ts";
import type { Attention } from "./core/attention.ts";
import type { AblationEntry, OutputEntry } from "./core/payload.ts";
import { grouped, nameOf } from "./glance.ts";

export function whatIf(page: Page, told: AblationEntry, { sequence }: OutputEntry) {
  const { state } = page,
    change = page.open(told.changes),
    T = change.shape[1];
  const owner = ({ entry }: Attention) =>
    entry.unit === "step"
      ? `${entry.label} ${entry.kind === "cross" ? "cross-attention" : "attention"}, all steps`
      : nameOf({ entry });
  const label = ({ attention, head }: { attention: number; head: number }) =>
    `${owner(page.attentions[attention])}, head ${head + 1}`;
  const total = told.heads.map((_, n) =>
    Array.from(change.data.subarray(n * T, (n + 1) * T)).reduce((sum, value) => sum + value, 0),
  );
  const most = Math.max(1e-6, ...total.map(Math.abs));
  const other = (n: number) => told.said[n].filter((id, place) => id !== told.plain[place]).length;
  const made = figure({
    title: "With one head switched off",
    name: "heads-off",
    note: "How the log-probability of what the model said changes when a head gives nothing: orange where it was needed, blue where it was in the way. Choose a head.",
    rows: () =>
      table(
        "Heads switched off",
        ["head", "change of log-probability", "places with another likeliest token"],
        told.heads.map((each, n) => [label(each), total[n], String(other(n))]),
      ),
  });
  const settles: (() => void)[] = [],
    groups = new Map<string, number[]>();
  for (const members of grouped(page.attentions).values()) {
    for (const { attention, index } of members) {
      const own = told.heads.flatMap((each, n) => (each.attention === index ? [n] : []));
      if (own.length) groups.set(owner(attention), own);
    }
  }
  const grid = el("div", { class: "offs", role: "group", "aria-label": "Heads to switch off" });
  for (const [name, members] of groups) {
    grid.append(
      el(
        "div",
        { class: "row" },
        el("span", { class: "layer long" }, name),
        members.map((n) => {
          const fill = () => signedColour(total[n], most);
          const button = el(
            "button",
            {
              type: "button",
              class: "off",
              "aria-label": `Switch off ${label(told.heads[n])}: ${figures(total[n])} nats`,
              onclick: () => state.set({ off: state.get("off") === String(n) ? "" : String(n) }),
            },
            printed(total[n], most),
          );
          settles.push(() => {
            button.style.background = hex(fill());
            button.style.color = inkOn(fill());
            button.setAttribute("aria-pressed", String(state.get("off") === String(n)));
          });
          return tip(button, () => [
            label(told.heads[n]),
            `log-probability changes by ${figures(total[n], 4)} nats`,
            `${other(n)} of ${T} places say something else`,
          ]);
        }),
      ),
    );
  }
  settles.push(roving(grid));
  const result = el("div", { class: "result" });
  const legend = el("div", { class: "wide" });
  made.stage.append(grid, legend, result);
  const draw = () => {
    settles.forEach((each) => each());
    legend.replaceChildren(signedLegend(most));
    const n = Number(state.get("off"));
    if (state.get("off") === "" || !told.heads[n]) {
      result.replaceChildren(el("p", { class: "note" }, "No head is switched off."));
      return;
    }
    const tokens = sequence ? page.payload.sequences[sequence].tokens : [""],
      writes = sequence && page.payload.sequences[sequence].writes;
    const at = (place: number) =>
      visible(sequence ? (writes ? writes[place] : tokens[place]) : told.words[told.plain[place]]);
    const places = el("div", { class: "tokens", role: "group", "aria-label": "The change at each place" });
    swap(
      result,
      el(
        "p",
        { class: "note" },
        `Without ${label(told.heads[n])}: ${figures(total[n], 4)} nats in all. Below, at each place the change, and what would be likeliest now where that differs.`,
      ),
      places,
    );
    places.append(
      ...tokens.map((_, place) => {
        const value = change.data[n * T + place],
          fill = signedColour(value, Math.max(1e-6, ...Array.from(change.data.subarray(n * T, (n + 1) * T), Math.abs))),
          differs = told.said[n][place] !== told.plain[place];
        return tip(
          el(
            "button",
            {
              type: "button",
              class: "token still",
              "data-key": place,
              onclick: () => sequence && page.choose(sequence, place),
              style: { background: hex(fill), color: inkOn(fill) },
            },
            el("bdi", {}, at(place)),
            differs ? el("em", {}, ` now ${visible(told.words[told.said[n][place]])}`) : null,
          ),
          () => [
            at(place),
            `changes by ${figures(value, 4)} nats`,
            differs ? `likeliest now: ${visible(told.words[told.said[n][place]])}` : "the likeliest token stays",
          ],
        );
      }),
    );
    roving(places, { press: false })();
    made.refresh();
  };
  state.on(["off"], draw);
  page.onTheme(draw);
  return made.root;
}

/** A change with two decimals, or with two figures where all of them are small. */
function printed(value: number, most: number): string {
  if (most < 0.05) return figures(value, 2);
  return value
    .toFixed(2)
    .replace("-", "−")
    .replace(/^−(0\.00)$/, "$1");
}
