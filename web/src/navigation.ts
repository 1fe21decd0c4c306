// The bar of links to the sections, and which of them is read.

import type { Page } from "./page.ts";
import { el, shortened } from "./dom.ts";
import { nameOf } from "./glance.ts";
import { roving } from "./keyboard.ts";

/** Links to the sections, and beside or below them what is chosen, always in sight. */
export class Bar {
  private readonly links = el("div", { class: "links" });
  private readonly now = el("p", { class: "now" });
  private readonly settle = roving(this.links, { press: false });
  readonly nav = el("nav", { "aria-label": "Parts of the page" }, this.links, this.now);

  /** Begin anew for another page: its links are to come, and what is chosen is told. */
  follow(page: Page): void {
    this.links.replaceChildren();
    this.now.hidden = !page.attentions.length;
    if (!page.attentions.length) return;
    page.state.on(page.looked(), () => {
      const { attention, head, queries, keys, i, j } = page.look();
      this.now.replaceChildren(
        el("bdi", {}, shortened(queries[i], 24)),
        " → ",
        el("bdi", {}, shortened(keys[j], 16)),
        el("span", { class: "where" }, `${nameOf(attention)}, head ${head + 1}`),
      );
    });
  }

  /** Add a link to a section. */
  list(page: Page, each: HTMLElement): void {
    const title = each.querySelector("h2");
    if (title) title.tabIndex = -1;
    this.links.append(
      el(
        "a",
        {
          href: `#${each.id}`,
          onclick: (event: Event) => {
            event.preventDefault(); // the address after the # is that of the view, with the section in it
            page.state.set({ s: each.id });
            arrived(each, matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth");
          },
        },
        each.dataset.short,
      ),
    );
    this.settle();
  }

  /** Say which section is read; titles stop below the bar, however many lines it has. */
  oriented(main: HTMLElement): void {
    const { nav, links } = this;
    const measure = () => document.documentElement.style.setProperty("--bar", `${nav.offsetHeight}px`);
    new ResizeObserver(measure).observe(nav);
    measure();
    let waiting = 0;
    const settle = () => {
      waiting = 0;
      const line = nav.offsetHeight + innerHeight / 4;
      const above = [...main.children].filter((each) => each.getBoundingClientRect().top <= line),
        at = above[above.length - 1] || main.children[0];
      for (const link of links.querySelectorAll("a")) {
        const here = at && link.getAttribute("href") === `#${at.id}`;
        if (here === link.hasAttribute("aria-current")) continue;
        if (here) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        if (here && links.scrollWidth > links.clientWidth) links.scrollTo({ left: link.offsetLeft - 40 });
      }
    };
    const soon = () => (waiting = waiting || requestAnimationFrame(settle));
    addEventListener("scroll", soon, { passive: true });
    new MutationObserver(soon).observe(main, { childList: true });
  }
}

export function arrived(each: Element, behavior: ScrollBehavior): void {
  each.scrollIntoView({ behavior });
  each.querySelector("h2")?.focus({ preventScroll: true });
}
