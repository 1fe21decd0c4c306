// The keyboard: every figure is one stop of the tab key, and arrows move inside it.

import { tip } from "./tips.ts";

/** A part of a drawing that can be chosen, and what its tip says. */
export interface Choice {
  node: SVGElement;
  name: string;
  key: string;
  chosen?: boolean;
  lines: () => string[];
  choose?: () => void;
}

/** Make parts of a drawing choosable: one stop of the tab key, arrows move, a click, Enter and Space choose.
 *
 * `root` becomes a list box, each of `items` an option with a name; `columns` is how far up and down are apart. It
 * listens for all of them: a drawing may have hundreds. */
export function choices(
  root: SVGElement,
  items: Choice[],
  { label, columns = 1 }: { label: string; columns?: number },
): void {
  const start = Math.max(
      0,
      items.findIndex((item) => item.chosen),
    ),
    places = new Map<Element | null, number>(items.map(({ node }, n) => [node, n])),
    placeOf = (event: Event) => places.get((event.target as Element).closest("[role=option]")) ?? -1;
  root.setAttribute("role", "listbox");
  root.setAttribute("aria-label", label);
  root.setAttribute("tabindex", "-1"); // else what listens for the focus would be a stop of its own
  items.forEach(({ node, name, key, chosen }, n) => {
    node.setAttribute("role", "option");
    node.setAttribute("aria-label", name);
    node.setAttribute("aria-selected", String(Boolean(chosen)));
    node.setAttribute("tabindex", n === start ? "0" : "-1");
    node.dataset.key = key;
  });
  tip(root, (event) => items[placeOf(event)]?.lines() ?? null);
  root.addEventListener("click", (event) => items[placeOf(event)]?.choose?.());
  root.addEventListener("keydown", (event) => {
    const n = placeOf(event);
    if (n < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      items[n].choose?.();
    }
    const step = ({ ArrowDown: columns, ArrowUp: -columns, ArrowRight: 1, ArrowLeft: -1 } as Record<string, number>)[
        event.key
      ],
      next = event.key === "Home" ? items[0] : event.key === "End" ? items[items.length - 1] : items[n + step];
    if (!next) return;
    event.preventDefault();
    for (const other of items) other.node.setAttribute("tabindex", other === next ? "0" : "-1");
    next.node.focus();
    next.node.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

/** Arrow keys move the focus among the buttons or links of a group, which is one stop of the tab key.
 *
 * Up and down go to the same place of the row before and after, where the buttons stand in rows (`.row`). With
 * `press` the button that is reached is pressed as well. To be called once for a group; what it gives settles which
 * button is the stop, whenever the buttons or what is pressed have changed. */
export function roving(group: HTMLElement, { press = true }: { press?: boolean } = {}): () => void {
  const buttons = () => [...group.querySelectorAll<HTMLElement>("button, a[href]")].filter((button) => !button.hidden);
  const settle = (chosen: HTMLElement | undefined) => {
    for (const button of buttons()) button.tabIndex = button === chosen ? 0 : -1;
  };
  group.tabIndex = -1; // Firefox stops at what scrolls, and here one of the buttons is the stop
  group.addEventListener("keydown", (event) => {
    const all = buttons(),
      at = all.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    const back = getComputedStyle(group).direction === "rtl" ? 1 : -1,
      to = (
        {
          ArrowRight: () => all[at - back],
          ArrowLeft: () => all[at + back],
          ArrowDown: () => nearby(group, all[at], 1) ?? all[at + 1],
          ArrowUp: () => nearby(group, all[at], -1) ?? all[at - 1],
          Home: () => all[0],
          End: () => all[all.length - 1],
        } as Record<string, () => HTMLElement | undefined>
      )[event.key];
    if (!to) return;
    event.preventDefault();
    const next = to();
    if (!next || next === all[at]) return;
    settle(next);
    next.focus();
    if (press) next.click();
  });
  return () => {
    const all = buttons();
    settle(
      all.find((button) => button.getAttribute("aria-pressed") === "true") ||
        all.find((button) => button === document.activeElement) ||
        all[0],
    );
  };
}

/** The button of the row before or after that stands in the same place; the button itself at either end. */
function nearby(group: HTMLElement, button: HTMLElement, step: number): HTMLElement | null | undefined {
  const rows = [...group.querySelectorAll(".row")],
    row = rows.findIndex((each) => each.contains(button));
  if (row < 0) return null;
  const place = [...rows[row].querySelectorAll<HTMLElement>("button")].indexOf(button),
    other = rows[row + step] && rows[row + step].querySelectorAll<HTMLElement>("button");
  return other ? other[Math.min(place, other.length - 1)] : button;
}

const BARS = ".figure > .head > .tools";

/** The tools of a section's figures are one stop of the tab key; up and down lead from those of a figure to the next. */
export function oneStop(section: HTMLElement): void {
  const visible = () => [...section.querySelectorAll<HTMLElement>(BARS)].filter((bar) => bar.checkVisibility());
  section.addEventListener(
    "keydown",
    (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key],
        bars = visible(),
        at = bars.findIndex((bar) => bar.contains(document.activeElement));
      if (!step || at < 0 || bars.length < 2) return;
      event.preventDefault();
      event.stopPropagation(); // inside one bar, up and down are left and right
      const buttons = bars[at + step]?.querySelectorAll("button");
      if (!buttons) return;
      const next = [...buttons].find(({ textContent }) => textContent === document.activeElement?.textContent);
      stopAt(section, next ?? buttons[0]);
      (next ?? buttons[0]).focus();
    },
    true,
  );
  const settle = () => {
    const bars = visible(),
      stop = bars.map((bar) => bar.querySelector<HTMLElement>("button[tabindex='0']")).find((button) => button);
    stopAt(section, stop ?? bars[0]?.querySelector<HTMLElement>("button") ?? null);
  };
  stopAt(section, section.querySelector<HTMLElement>(`${BARS} button`));
  settles.set(section, settle);
}

const settles = new WeakMap<Element, () => void>();

function stopAt(section: HTMLElement, stop: HTMLElement | null): void {
  for (const button of section.querySelectorAll<HTMLElement>(`${BARS} button`))
    button.tabIndex = button === stop ? 0 : -1;
}

/** Before the tab key moves the focus, stops are where something is seen: figures come and go. */
export function settleStops(): void {
  addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Tab")
        for (const section of document.querySelectorAll("main > section")) settles.get(section)?.();
    },
    true,
  );
}
