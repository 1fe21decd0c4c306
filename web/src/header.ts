// The top of the page, and the theme.

import { el, shortened } from "./dom.ts";
import { setTheme } from "./core/colour.ts";
import { roving } from "./keyboard.ts";
import { tourButton } from "./tour.ts";
import type { Page } from "./page.ts";

const LONGEST = 160; // letters of a text in the headline

export function themed(wanted: string): void {
  const dark = wanted === "dark" || (wanted === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  setTheme(dark ? "dark" : "light");
}

/** The top of the page: what went in and came out, and what the run is. */
export function headline(page: Page, live: boolean): HTMLElement {
  const { run, task, data, score, model, parameters, steps, given, said } = page.payload;
  const trained = steps.filter((step) => step > 0);
  const facts = [
    task,
    data ? `data: ${data}` : null,
    `${model === task ? "" : `${model}, `}${parameters.toLocaleString("en")} parameters`,
    trained.length
      ? (trained.length > 1 ? "mean of the checkpoints of steps " : "step ") +
        new Intl.ListFormat("en").format(trained.map((step) => step.toLocaleString("en")))
      : steps.length
        ? "imported"
        : null,
    score,
    run,
  ].filter(Boolean);
  const badge = el("p", { class: "badge", id: "badge", role: "status" }, "comparing with PyTorch …");
  const theme = el(
    "button",
    {
      type: "button",
      class: "quiet",
      id: "theme",
      onclick: () => page.state.set({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }),
    },
    "Dark",
  );
  page.state.on(["theme"], () =>
    theme.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark")),
  );
  const copy = el(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(location.href);
          copy.textContent = "Copied";
        } catch {
          copy.textContent = "In the address bar";
        }
        setTimeout(() => (copy.textContent = "Copy link"), 2000);
      },
    },
    "Copy link",
  );
  const bar = el(
    "div",
    { class: "bar", role: "toolbar", "aria-label": "The page" },
    el("span", { class: "mark" }, "headway look"),
    el("span", { class: "grow" }),
    tourButton(page),
    live ? null : copy,
    theme,
  );
  roving(bar, { press: false })();
  return el(
    "header",
    { class: "top" },
    bar,
    el(
      "h1",
      { dir: "auto" },
      el("bdi", {}, shortened(given, LONGEST)),
      said
        ? [el("span", { class: "arrow", "aria-label": "becomes" }, " → "), el("bdi", {}, shortened(said, LONGEST))]
        : null,
    ),
    el("p", { class: "facts" }, facts.join(" · ")),
    badge,
  );
}
