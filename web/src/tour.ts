// A guided tour: a card that stays in sight, with a stop's text, what it selects, and a question to answer.

import { el, type Child } from "./dom.ts";
import { roving } from "./keyboard.ts";
import { figures } from "./core/numbers.ts";
import { isChoices, isRight, type Question } from "./core/question.ts";
import { STOPS, toursOf } from "./core/tour.ts";
import type { Page } from "./page.ts";

type Tours = ReturnType<typeof toursOf>;

/** Begins the tour that was taken last, or the first one; a second click ends it. */
export function tourButton(page: Page): HTMLElement | null {
  if (!page.attentions.length) return null;
  const button = el(
    "button",
    {
      type: "button",
      class: "quiet",
      id: "tour",
      onclick: () => {
        const first = toursOf(page)[0];
        page.state.set({ tour: page.state.get("tour") ? "" : first ? `${first.id}.1` : "" });
      },
    },
    "Tour",
  );
  page.state.on(["tour"], () => button.setAttribute("aria-pressed", String(page.state.get("tour") !== "")));
  return button;
}

/** The card of the tour; it is there for every payload, and goes with the state's `tour`. */
export class Guide {
  readonly node = el("aside", { class: "guide", "aria-label": "Guided tour", hidden: true });
  private page: Page | null = null;
  private tours: Tours = [];
  private told = ""; // stop and selection whose question stands on the card

  constructor() {
    this.node.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.page?.state.set({ tour: "" });
      document.getElementById("tour")?.focus();
    });
  }

  /** Follow a page; `arriving`, the stop that its address names selects what it shows. */
  show(page: Page, arriving: boolean): void {
    this.page = page;
    this.tours = [];
    this.told = "";
    page.state.onChange(["tour"], () => this.arrive(page));
    page.state.onChange(page.looked(), () => this.draw(page));
    if (arriving && page.state.get("tour")) this.arrive(page);
    else this.draw(page);
  }

  /** The tour and the number of the stop that the state names; null for none that this run has. */
  private at(page: Page) {
    const [id, number] = page.state.get("tour").split(".");
    if (!id) return null;
    if (!this.tours.length) this.tours = toursOf(page);
    const tour = this.tours.find((each) => each.id === id),
      n = Number(number) - 1;
    return tour?.stops[n] ? { tour, n, stop: STOPS[tour.stops[n].name], slide: tour.stops[n].slide } : null;
  }

  private arrive(page: Page): void {
    if (page !== this.page) return;
    for (const each of document.querySelectorAll(".toured")) each.classList.remove("toured");
    const found = this.at(page);
    if (found) {
      const [section, name] = found.stop.at.split("/"),
        part = document.getElementById(section),
        figure = name ? part?.querySelector(`[data-figure="${name}"]`) : null,
        still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (found.stop.select) page.state.set(found.stop.select(page));
      figure?.classList.add("toured");
      (figure ?? part)?.scrollIntoView({ behavior: still ? "instant" : "smooth", block: "start" });
    }
    this.draw(page);
    if (found) this.node.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
  }

  private draw(page: Page): void {
    if (page !== this.page) return;
    const found = this.at(page);
    this.node.hidden = !found;
    document.documentElement.classList.toggle("touring", Boolean(found));
    if (!found) {
      this.told = "";
      this.node.replaceChildren();
      return;
    }
    const { tour, n, stop, slide } = found,
      text = stop.text(page),
      question = stop.question(page),
      told = JSON.stringify([tour.id, n, text, question]);
    if (told === this.told) return; // a selection that changes nothing here leaves an answer as it is
    this.told = told;
    const go = (to: string) => page.state.set({ tour: to });
    const step = (label: string, to: number) =>
      el(
        "button",
        { type: "button", class: "quiet", disabled: !tour.stops[to], onclick: () => go(`${tour.id}.${to + 1}`) },
        label,
      );
    const choice = el(
      "select",
      { "aria-label": "Which tour", onchange: (event: Event) => go(`${(event.target as HTMLSelectElement).value}.1`) },
      this.tours.map((each) => el("option", { value: each.id, selected: each === tour }, each.title)),
    );
    this.node.replaceChildren(
      el(
        "div",
        { class: "bar" },
        choice,
        el("span", { class: "grow" }),
        el("button", { type: "button", class: "quiet", onclick: () => go("") }, "End tour"),
      ),
      el("h2", { tabindex: -1 }, stop.title),
      el("p", { class: "note" }, `${n + 1} of ${tour.stops.length} · deck ${tour.id}, ${slide}`),
      el("p", { dir: "auto" }, text),
      ...asked(question),
      el("div", { class: "bar" }, step("Back", n - 1), el("span", { class: "grow" }), step("Next", n + 1)),
    );
  }
}

/** A question with its answers, and what the page says to the one that is given. */
function asked(question: Question | null): HTMLElement[] {
  if (!question) return [];
  const verdict = el("p", { class: "verdict", role: "status" });
  const judge = (answer: string) => {
    const right = isRight(question, answer);
    verdict.className = `verdict ${right ? "right" : "wrong"}`;
    verdict.replaceChildren(
      ...(right
        ? [`Right. ${question.because}`]
        : [right === null ? "A number is expected here, such as 0.25. " : "Not yet. ", shown(question, verdict)]),
    );
  };
  const ask = el("p", { class: "ask", id: "tour-question", dir: "auto" }, question.ask);
  return [ask, isChoices(question) ? chosen(question.choices, judge) : typed(judge), verdict];
}

function shown(question: Question, verdict: HTMLElement): HTMLElement {
  const answer = isChoices(question) ? question.choices[question.right] : figures(question.value, 3);
  return el(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        verdict.className = "verdict";
        verdict.tabIndex = -1;
        verdict.textContent = `${answer}. ${question.because}`;
        verdict.focus();
      },
    },
    "Show the answer",
  );
}

function chosen(choices: string[], judge: (answer: string) => void): HTMLElement {
  const buttons = choices.map((each) =>
    el(
      "button",
      {
        type: "button",
        class: "token",
        "aria-pressed": "false",
        onclick: (event: Event) => {
          for (const other of buttons) other.setAttribute("aria-pressed", String(other === event.currentTarget));
          settle();
          judge(each);
        },
      },
      el("bdi", {}, each),
    ),
  );
  const group = el("div", { class: "tokens", role: "group", "aria-labelledby": "tour-question" }, buttons),
    settle = roving(group, { press: false });
  settle();
  return group;
}

function typed(judge: (answer: string) => void): HTMLElement {
  const input = el("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    "aria-labelledby": "tour-question",
  });
  const parts: Child[] = [input, el("button", { class: "quiet" }, "Check")];
  return el(
    "form",
    {
      class: "control",
      onsubmit: (event: Event) => {
        event.preventDefault(); // nothing is sent anywhere
        judge(input.value);
      },
    },
    parts,
  );
}
