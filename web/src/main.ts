// The page, from input to output.

import { el, shortened, table, type Child } from "./dom.ts";
import { setTheme } from "./core/colour.ts";
import { figures } from "./core/numbers.ts";
import { pause } from "./canvas.ts";
import { Page } from "./page.ts";
import { compared } from "./badge.ts";
import { bar, listed, arrived, oriented } from "./navigation.ts";
import { figure } from "./figure.ts";
import { inputs, embeddings } from "./input.ts";
import { glance, nameOf } from "./glance.ts";
import { matrix } from "./matrix.ts";
import { shareLegend } from "./legend.ts";
import { rivals } from "./rivals.ts";
import { ladder, products, values } from "./story.ts";
import { positions } from "./position.ts";
import { blocks } from "./blocks.ts";
import { output } from "./output.ts";
import { neighbours } from "./near.ts";
import { lens } from "./lens.ts";
import { whatIf } from "./whatif.ts";
import { search } from "./beam.ts";
import { pictureInput, pictureLook } from "./picture.ts";

const LONGEST = 160; // letters of a text in the headline

const page = new Page(JSON.parse(document.getElementById("payload")?.textContent ?? ""));

function themed(wanted: string): void {
  const dark = wanted === "dark" || (wanted === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  setTheme(dark ? "dark" : "light");
}

function headline() {
  const { run, task, data, score, model, parameters, steps, given, said } = page.payload;
  const trained = steps.filter((step) => step > 0);
  const facts = [
    task,
    data ? `data: ${data}` : null,
    `${model}, ${parameters.toLocaleString("en")} parameters`,
    trained.length
      ? `step ${trained.map((step) => step.toLocaleString("en")).join(", ")}`
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

function oneHead() {
  const source = () => page.look();
  const seen = matrix(source, {
    label: () => `Weights of ${nameOf(page.attention)}, head ${page.state.get("head") + 1}.`,
    pick: (i: number, j: number) => page.state.set({ [`at.${page.attention.entry.queries}`]: i, key: j }),
  });
  const made = figure({
    title: "One head",
    name: "head",
    tools: seen.tools,
    note: "Who looks at whom: queries down, keys across. Click a cell to follow it below. Zoom with + and −, or with the wheel and Ctrl.",
    rows: () => {
      const { story, keys, queries, i } = page.look();
      return table(
        `Weights of ${queries[i]}`,
        ["key", "weight"],
        story.keys.map((key) => [`${keys[key.j]} (${key.j + 1})`, figures(key.weight, 4, key.doubts.weight)]),
      );
    },
  });
  const title = made.root.querySelector("figcaption"),
    holder = el("div", { class: "wide" }, seen.node),
    legend = el("div", { class: "wide" });
  made.stage.append(holder, legend);
  page.onLook(() => {
    if (title) title.textContent = `${nameOf(page.attention)}, head ${page.look().head + 1}`;
    seen.draw();
    legend.replaceChildren(shareLegend());
    made.refresh();
  }, made.root);
  return made.root;
}

function section(id: string, short: string, title: string, lead: string | null, ...content: Child[]) {
  const inside = content.flat(9).filter(Boolean) as Child[];
  return inside.length
    ? el(
        "section",
        { id, "aria-labelledby": `${id}-title`, "data-short": short },
        el("h2", { id: `${id}-title` }, title),
        lead ? el("p", { class: "lead" }, lead) : null,
        inside,
      )
    : null;
}

/** What the page leaves out, and why. */
function omission(text: string) {
  return text ? el("p", { class: "omission" }, text) : null;
}

/** The parts of the page, from input to output, each made when it is its turn. */
function parts(): (() => HTMLElement | null)[] {
  const { payload } = page,
    { output: told, ablation, trace } = payload,
    looks = page.attentions.length > 0;
  return [
    () =>
      section(
        "input",
        "Input",
        "What went in",
        "Choose a token here or anywhere below; everything follows it.",
        payload.image ? pictureInput(page, payload.image) : null,
        inputs(page),
      ),
    () =>
      section(
        "vectors",
        "Vectors",
        "Vectors and positions",
        "Each token becomes a vector, and learns where it stands.",
        embeddings(page),
        Object.keys(payload.near).map((name) => neighbours(page, name)),
      ),
    looks &&
      (() =>
        section(
          "attention",
          "Heads",
          "Who looks at whom",
          "In every head each token asks a question, its query, and takes from the tokens whose keys answer it.",
          glance(page),
          oneHead(),
          rivals(page),
          payload.image ? pictureLook(page, payload.image) : null,
        )),
    !looks &&
      payload.left_out &&
      (() =>
        section(
          "attention",
          "Heads",
          "Who looks at whom",
          null,
          omission(
            `This text is so long that the attention of not even one of ${payload.left_out} layers fits into the file. Look at a shorter text.`,
          ),
        )),
    looks &&
      (() =>
        section(
          "story",
          "One look",
          "One look, step by step",
          "All of it is computed here, from the queries, keys and values of the run.",
          ladder(page),
          products(page),
          positions(page),
          values(page),
        )),
    () => section("stream", "Blocks", "Through the blocks", "What every block leaves of a token.", blocks(page)),
    told &&
      (() =>
        section(
          "output",
          "Output",
          "What comes out",
          "The last vector of each token, read by the output layer.",
          output(page, told),
          payload.lens ? lens(page, payload.lens, told) : null,
        )),
    (payload.ablation || payload.ablation_left_out) &&
      (() =>
        section(
          "what-if",
          "What if",
          "What if",
          "Every head has a part in the result; some more than others.",
          ablation && told ? whatIf(page, ablation, told) : omission(payload.ablation_left_out),
        )),
    trace &&
      trace.nodes.length > 0 &&
      (() =>
        section(
          "search",
          "Search",
          "How it was found",
          "A model gives probabilities; a search decides which tokens to follow.",
          search(page, trace),
        )),
  ].filter((part) => typeof part === "function");
}

async function start() {
  const addressed = () => page.state.read(location.hash, (key, value) => page.allows(key, value));
  const follow = () => {
    const wanted = page.state.get("s") && document.getElementById(page.state.get("s"));
    if (wanted && wanted.matches("section")) arrived(wanted, "instant");
  };
  addressed();
  page.state.on(["theme"], () => themed(page.state.get("theme")));
  const { nav, links } = bar(page),
    main = el("main", {});
  document.body.append(
    headline(),
    nav,
    main,
    el(
      "footer",
      {},
      el("p", {}, "Written by headway. This file loads nothing; every number in it comes from the run."),
      el("p", { id: "agreement" }),
    ),
  );
  for (const part of parts()) {
    // one after the other, so that the first is seen while the rest is made
    await pause();
    const drawn = page.redraws.length,
      each = part();
    if (!each) continue;
    main.append(each);
    listed(page, links, each);
    for (const { draw } of page.redraws.slice(drawn)) draw(); // now that there is room to measure
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
  addEventListener("hashchange", () => {
    addressed();
    follow();
  });
  oriented(nav, links, main);
  follow();
  document.documentElement.dataset.ready = "yes";
  setTimeout(() => compared(page), 0);
}

start();
