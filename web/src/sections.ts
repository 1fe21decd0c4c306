// The parts of the page: what went in, what came out and what it hangs on, then how it was computed.

import { el, table, type Child } from "./dom.ts";
import { figures } from "./core/numbers.ts";
import type { Page } from "./page.ts";
import { oneStop } from "./keyboard.ts";
import { figure } from "./figure.ts";
import { inputs, embeddings } from "./input.ts";
import { glance, nameOf } from "./glance.ts";
import { besides } from "./beside.ts";
import { timeLapse } from "./lapse.ts";
import { matrix } from "./matrix.ts";
import { modelMap, type Switches } from "./map.ts";
import { change } from "./change.ts";
import { shareLegend } from "./legend.ts";
import { rivals } from "./rivals.ts";
import { ladder, products, values } from "./story.ts";
import { positions } from "./position.ts";
import { blocks } from "./blocks.ts";
import { componentOrigin, followed, logitOrigin } from "./origin.ts";
import { output } from "./output.ts";
import { sampling } from "./sampling.ts";
import { neighbours } from "./near.ts";
import { vectorMap } from "./vectormap.ts";
import { lens } from "./lens.ts";
import { whatIf } from "./whatif.ts";
import { search } from "./beam.ts";
import { pictureInput, pictureLook } from "./picture.ts";

function oneHead(page: Page) {
  const source = () => page.look();
  const seen = matrix(source, {
    label: () => `Weights of ${nameOf(page.attention)}, head ${page.state.get("head") + 1}.`,
    pick: (i: number, j: number) => page.state.set({ [`at.${page.attention.entry.queries}`]: i, key: j }),
  });
  const made = figure({
    title: "One head",
    name: "head",
    tools: seen.tools,
    note: "Which tokens attend to which: queries down, keys across. Click a cell to follow it below. Zoom with + and −, or with the wheel and Ctrl.",
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
  if (!inside.length) return null;
  const made = el(
    "section",
    { id, "aria-labelledby": `${id}-title`, "data-short": short },
    el("h2", { id: `${id}-title` }, title),
    lead ? el("p", { class: "lead" }, lead) : null,
    inside,
  );
  oneStop(made);
  return made;
}

/** What the page leaves out, and why. */
function omission(text: string) {
  return text ? el("p", { class: "omission" }, text) : null;
}

/** Live, what takes a pass for each head is done when it is wanted. */
function measure(switches: Switches | null) {
  if (!switches) return null;
  return el(
    "button",
    { type: "button", class: "quiet", id: "live-every-head", onclick: () => switches.everyHead() },
    "Ablate every head now",
  );
}

/** Live, where training kept no looks of the input: its checkpoints read it when that is wanted. */
function checkpointed(switches: Switches | null) {
  if (!switches) return null;
  return el(
    "p",
    {},
    el(
      "button",
      { type: "button", class: "quiet", id: "live-over-training", onclick: () => switches.overTraining() },
      `Read it with each of ${switches.checkpoints()} checkpoints`,
    ),
  );
}

/** The parts of the page, each made when it is its turn: first the answer, then how it came about. */
export function parts(page: Page, switches: Switches | null): (() => HTMLElement | null)[] {
  const { payload } = page,
    { output: told, ablation, trace } = payload,
    looks = page.attentions.length > 0;
  return [
    payload.change &&
      !switches &&
      (() =>
        section("change", "Change", "What was changed", null, payload.change ? change(page, payload.change) : null)),
    payload.map.length > 0 &&
      !switches &&
      (() =>
        section(
          "model",
          "Model",
          "The model",
          "From input to output. Choose a part to see it below.",
          modelMap(page, null).node,
        )),
    () =>
      section(
        "input",
        "Input",
        "What went in",
        "Choose a token here or anywhere below; everything follows it.",
        payload.image ? pictureInput(page, payload.image) : null,
        inputs(page),
      ),
    told &&
      (() =>
        section(
          "output",
          "Output",
          "What comes out",
          "The last vectors, read by the output layer.",
          output(page, told),
          told.drawn ? sampling(page, told) : null,
          logitOrigin(page, switches, told),
        )),
    (payload.ablation || payload.ablation_left_out) &&
      (() =>
        section(
          "what-if",
          "What if",
          "What if",
          "Every head has a part in the result; some more than others.",
          ablation && told ? whatIf(page, ablation, told) : [omission(payload.ablation_left_out), measure(switches)],
        )),
    () =>
      section(
        "vectors",
        "Vectors",
        "Vectors and positions",
        "Each token becomes a vector, and learns where it stands.",
        embeddings(page),
        Object.keys(payload.near).map((name) => [neighbours(page, name), vectorMap(page, name)]),
      ),
    looks &&
      (() =>
        section(
          "attention",
          "Heads",
          "Which tokens attend to which",
          "In every head each token asks a question, its query, and takes from the tokens whose keys answer it.",
          glance(page),
          oneHead(page),
          rivals(page),
          payload.image ? pictureLook(page, payload.image) : null,
        )),
    !looks &&
      payload.left_out &&
      (() =>
        section(
          "attention",
          "Heads",
          "Which tokens attend to which",
          null,
          omission(
            `This text is so long that the attention of not even one of ${payload.left_out} layers fits into the file. Use a shorter text.`,
          ),
        )),
    payload.other &&
      (() =>
        section(
          "beside",
          "Beside",
          "Two models, one picture",
          "Both read the same tokens.",
          payload.other ? besides(page, payload.other) : null,
        )),
    looks &&
      (payload.time_lapse || (switches && switches.checkpoints() > 1)) &&
      (() =>
        section(
          "training",
          "Training",
          "Over training",
          "The same input, read again and again while the model learned.",
          payload.time_lapse ? timeLapse(page, payload.time_lapse) : [checkpointed(switches)],
        )),
    looks &&
      (() =>
        section(
          "story",
          "One row",
          "One attention row, step by step",
          "All of it is computed here, from the queries, keys and values of the run.",
          ladder(page),
          products(page, followed(page, switches)),
          componentOrigin(page, switches),
          positions(page),
          values(page),
        )),
    () =>
      section(
        "stream",
        "Blocks",
        "Through the blocks",
        "What every block leaves of a token.",
        blocks(page),
        payload.lens && told ? lens(page, payload.lens, told) : null,
      ),
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
