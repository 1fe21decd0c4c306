// A payload on the screen: header, bar, sections. Another payload takes its place section by section.

import { el } from "./dom.ts";
import { pause, turns } from "./canvas.ts";
import { compared } from "./badge.ts";
import { headline, themed } from "./header.ts";
import { Bar, arrived } from "./navigation.ts";
import { parts } from "./sections.ts";
import { settleStops } from "./keyboard.ts";
import { Guide } from "./tour.ts";
import { Page } from "./page.ts";
import type { Payload } from "./core/payload.ts";
import type { Key, Values } from "./core/state.ts";
import type { Switches } from "./map.ts";

const TASK = 16; // milliseconds of a section after which each of its figures is drawn in a task of its own

export class View {
  page: Page | null = null;
  private readonly bar = new Bar();
  private readonly guide = new Guide();
  private readonly main = el("main", {});
  private header = el("header", {});
  private turn = 0; // of what is shown: a newer payload stops the building of an older one

  /** `panel` stands below the header: what a live page is worked with; `switches` is what its map does. */
  constructor(
    panel: HTMLElement | null = null,
    private readonly switches: Switches | null = null,
  ) {
    const footer = el(
      "footer",
      {},
      el(
        "p",
        {},
        switches
          ? "Served by headway on this machine. Every number on it comes from the run."
          : "Written by headway. This file loads nothing; every number in it comes from the run.",
      ),
      el("p", { id: "agreement" }),
    );
    document.body.append(this.header, ...(panel ? [panel] : []), this.bar.nav, this.main, footer, this.guide.node);
    let width = innerWidth,
      waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => this.page?.redraw());
    });
    addEventListener("hashchange", () => {
      if (!this.page) return;
      this.addressed(this.page);
      this.follow(this.page);
    });
    this.bar.oriented(this.main);
    settleStops();
  }

  /** Show a payload; what `kept` says is chosen at first, where the payload has it. Resolves when all is drawn. */
  async show(payload: Payload, kept: Partial<Values> = {}): Promise<void> {
    const turn = ++this.turn,
      page = new Page(payload),
      fresh = document.documentElement.dataset.ready !== "yes";
    for (const [key, value] of Object.entries(kept) as [Key, string | number][])
      if (Object.hasOwn(page.state.defaults, key) && page.allows(key, value))
        page.state.values[key as "head"] = value as number;
    if (fresh) this.addressed(page);
    this.page = page;
    page.state.on(["theme"], () => themed(page.state.get("theme")));
    const header = headline(page, this.switches !== null);
    this.header.replaceWith(header);
    this.header = header;
    const rest = turns();
    for (const attention of page.attentions) {
      await rest(); // what a long text's attentions were computed from takes a while to be decoded
      if (turn !== this.turn) return;
      attention.ready();
    }
    this.bar.follow(page);
    const before = new Map([...this.main.children].map((each) => [each.id, each]));
    let last: Element | null = null;
    for (const part of parts(page, this.switches)) {
      await pause(); // one after the other, so that the first is seen while the rest is made
      if (turn !== this.turn) return;
      const began = performance.now(),
        drawn = page.redraws.length,
        section = part();
      if (!section) continue;
      before.get(section.id)?.remove();
      before.delete(section.id);
      if (last) last.after(section);
      else this.main.prepend(section);
      last = section;
      this.bar.list(page, section);
      for (const { draw } of page.redraws.slice(drawn)) {
        if (performance.now() - began > TASK) await pause();
        if (turn !== this.turn) return;
        draw(); // now that there is room to measure
      }
    }
    for (const left of before.values()) left.remove();
    this.guide.show(page, fresh);
    for (const draw of page.themes) {
      await pause();
      if (turn !== this.turn) return;
      draw();
    }
    page.state.onChange(["theme"], () => void recoloured(page));
    if (fresh) this.follow(page);
    document.documentElement.dataset.ready = "yes";
    setTimeout(() => turn === this.turn && compared(page), 0);
  }

  private addressed(page: Page): void {
    page.state.read(location.hash, (key, value) => page.allows(key, value));
  }

  private follow(page: Page): void {
    const wanted = page.state.get("s") && document.getElementById(page.state.get("s"));
    if (wanted && wanted.matches("section")) arrived(wanted, "instant");
  }
}

/** Draw everything in the colours of the theme: first what is seen, then, a task each, what has pictures of its own. */
async function recoloured(page: Page): Promise<void> {
  page.redraw();
  for (const draw of page.themes) {
    await pause();
    draw();
  }
}
