// The page, from input to output.

import { el, visible, shortened, figures, table } from "./dom.js";
import { pause } from "./canvas.js";
import { Page } from "./page.js";
import { figure } from "./figure.js";
import { inputs, embeddings } from "./input.js";
import { glance, nameOf } from "./glance.js";
import { matrix, shareLegend } from "./matrix.js";
import { rivals } from "./rivals.js";
import { ladder, products, values } from "./story.js";
import { positions } from "./position.js";
import { blocks } from "./blocks.js";
import { output } from "./output.js";
import { neighbours } from "./near.js";
import { lens } from "./lens.js";
import { whatIf } from "./whatif.js";
import { search } from "./beam.js";
import { pictureInput, pictureLook } from "./picture.js";

const LONGEST = 160; // letters of a text in the headline

const page = new Page(JSON.parse(document.getElementById("payload").textContent));

function themed(wanted) {
  const dark = wanted === "dark" || (wanted === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function headline() {
  const { run, model, parameters, steps, given, said, kind } = page.payload;
  const facts = [
    model,
    `${parameters.toLocaleString("en")} parameters`,
    steps.length ? `step ${steps.map((step) => step.toLocaleString("en")).join(", ")}` : null,
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
    "Light or dark",
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
      },
    },
    "Copy link",
  );
  return el(
    "header",
    { class: "top" },
    el(
      "div",
      { class: "bar" },
      el("span", { class: "mark" }, "headway look"),
      el("span", { class: "grow" }),
      copy,
      theme,
    ),
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

/** Compare every kept row with PyTorch's, a head at a time. */
async function compared() {
  const badge = document.getElementById("badge");
  let most = 0,
    rows = 0,
    since = performance.now();
  for (const attention of page.attentions) {
    for (let head = 0; head < attention.heads; head++) {
      const difference = attention.difference(head);
      most = difference > most || Number.isNaN(difference) ? difference : most;
      rows += attention.entry.rows.length;
      if (performance.now() - since > 24) {
        await pause();
        since = performance.now();
      }
    }
  }
  const exact = page.payload.precision === "float32",
    bound = exact ? 1e-5 : 1e-3;
  badge.dataset.difference = String(most);
  badge.classList.add(most <= bound ? "good" : "bad");
  badge.textContent = rows
    ? `This page computes attention itself. Largest difference from PyTorch, over ${rows.toLocaleString("en")} rows: ${figures(most, 2)} (${exact ? "32" : "16"} bits)`
    : "Nothing here to compare with PyTorch";
}

function oneHead() {
  const source = () => page.look();
  const seen = matrix(source, {
    label: () => `Weights of ${nameOf(page.attention)}, head ${page.state.get("head") + 1}.`,
    pick: (i, j) => page.state.set({ [`at.${page.attention.entry.queries}`]: i, key: j }),
  });
  const made = figure({
    title: "One head",
    name: "head",
    tools: seen.tools,
    note: "Who looks at whom: queries down, keys across. Click a cell to follow it below. Zoom with + and −, or with the wheel and Ctrl.",
    rows: () => {
      const { story, keys, queries, i } = page.look();
      return table(
        `Weights of ${visible(queries[i])}`,
        ["key", "weight"],
        story.keys.map((key) => [`${visible(keys[key.j])} (${key.j + 1})`, key.weight]),
      );
    },
  });
  const title = made.root.querySelector("figcaption"),
    holder = el("div", { class: "wide" }, seen.node),
    legend = el("div", { class: "wide" });
  made.stage.append(holder, legend);
  page.onLook(() => {
    title.textContent = `${nameOf(page.attention)}, head ${page.look().head + 1}`;
    seen.draw();
    legend.replaceChildren(shareLegend());
    made.refresh();
  });
  return made.root;
}

function section(id, title, lead, ...content) {
  const inside = content.flat(9).filter(Boolean);
  return inside.length
    ? el(
        "section",
        { id, "aria-labelledby": `${id}-title` },
        el("h2", { id: `${id}-title` }, title),
        lead ? el("p", { class: "lead" }, lead) : null,
        inside,
      )
    : null;
}

/** The parts of the page, from input to output, each made when it is its turn. */
function parts() {
  const { payload } = page,
    looks = page.attentions.length > 0;
  return [
    () =>
      section(
        "input",
        "What went in",
        "Choose a token here or anywhere below; everything follows it.",
        payload.image ? pictureInput(page) : null,
        inputs(page),
      ),
    () =>
      section(
        "vectors",
        "Vectors and positions",
        "Each token becomes a vector, and learns where it stands.",
        embeddings(page),
        Object.keys(payload.near).map((name) => neighbours(page, name)),
      ),
    looks &&
      (() =>
        section(
          "attention",
          "Who looks at whom",
          "In every head each token asks a question, its query, and takes from the tokens whose keys answer it.",
          glance(page),
          oneHead(),
          rivals(page),
          payload.image ? pictureLook(page) : null,
        )),
    looks &&
      (() =>
        section(
          "story",
          "One look, step by step",
          "All of it is computed here, from the queries, keys and values of the run.",
          ladder(page),
          products(page),
          positions(page),
          values(page),
        )),
    () => section("stream", "Through the blocks", "What every block leaves of a token.", blocks(page)),
    payload.output &&
      (() =>
        section(
          "output",
          "What comes out",
          "The last vector of each token, read by the output layer.",
          output(page),
          payload.lens ? lens(page) : null,
        )),
    payload.ablation &&
      (() =>
        section("what-if", "What if", "Every head has a part in the result; some more than others.", whatIf(page))),
    payload.trace &&
      payload.trace.nodes.length &&
      (() =>
        section(
          "search",
          "How it was found",
          "A model gives probabilities; a search decides which words to follow.",
          search(page),
        )),
  ].filter(Boolean);
}

function listed(nav, each) {
  const title = each.querySelector("h2");
  title.tabIndex = -1;
  nav.append(
    el(
      "a",
      {
        href: `#${each.id}`,
        onclick: (event) => {
          event.preventDefault(); // the address after the # is that of the view
          each.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
          title.focus({ preventScroll: true });
        },
      },
      title.textContent,
    ),
  );
}

async function start() {
  const addressed = () => page.state.read(location.hash, (key, value) => page.allows(key, value));
  addressed();
  page.state.on(["theme"], () => themed(page.state.get("theme")));
  const nav = el("nav", { "aria-label": "Parts of the page" }),
    main = el("main", {});
  document.body.append(
    headline(),
    nav,
    main,
    el("footer", {}, "Written by headway. This file loads nothing; every number in it comes from the run."),
  );
  for (const part of parts()) {
    // one after the other, so that the first is seen while the rest is made
    await pause();
    const drawn = page.redraws.length,
      each = part();
    if (!each) continue;
    main.append(each);
    listed(nav, each);
    for (const draw of page.redraws.slice(drawn)) draw(); // now that there is room to measure
  }
  for (const draw of page.themes) draw();
  page.state.on(["theme"], () => {
    page.redraw();
    for (const draw of page.themes) draw();
  });
  let width = innerWidth,
    waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => page.redraw());
  });
  addEventListener("hashchange", addressed);
  document.documentElement.dataset.ready = "yes";
  setTimeout(compared, 0);
}

start();
