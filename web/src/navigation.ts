// The bar of links to the sections, and which of them is read.

import type { Page } from "./page.ts";
import { el, shortened } from "./dom.ts";
import { nameOf } from "./glance.ts";

/** The bar: room for the links, and beside or below them what is chosen, always in sight. */
export function bar(page: Page) {
  const links = el("div", { class: "links" }),
    now = el("p", { class: "now" }),
    nav = el("nav", { "aria-label": "Parts of the page" }, links, page.attentions.length ? now : null);
  if (page.attentions.length)
    page.state.on(page.looked(), () => {
      const { attention, head, queries, keys, i, j } = page.look();
      now.replaceChildren(
        el("bdi", {}, shortened(queries[i], 24)),
        " → ",
        el("bdi", {}, shortened(keys[j], 16)),
        el("span", { class: "where" }, `${nameOf(attention)}, head ${head + 1}`),
      );
    });
  return { nav, links };
}

/** A link in the bar to a section. */
export function listed(page: Page, links: HTMLElement, each: HTMLElement): void {
  const title = each.querySelector("h2");
  if (title) title.tabIndex = -1;
  links.append(
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
}

export function arrived(each: Element, behavior: ScrollBehavior): void {
  each.scrollIntoView({ behavior });
  each.querySelector("h2")?.focus({ preventScroll: true });
}

/** The bar says which section is read; titles stop below it, however many lines it has. */
export function oriented(nav: HTMLElement, links: HTMLElement, main: HTMLElement): void {
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
  addEventListener("scroll", () => (waiting = waiting || requestAnimationFrame(settle)), { passive: true });
  settle();
}
