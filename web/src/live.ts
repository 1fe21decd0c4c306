// The live page: type a text and the model runs; write on, branch, switch parts off, patch, compare, save.

import { change, changedParts, placeName } from "./change.ts";
import { EditForms } from "./edits.ts";
import { el, shortened, visible } from "./dom.ts";
import { COUNT, WrittenText } from "./written.ts";
import { placeOfLast, prefixOf } from "./core/branch.ts";
import { replaced } from "./core/span.ts";
import { modelMap, partName, type ModelMap, type Switches } from "./map.ts";
import { saved } from "./export.ts";
import { Tray, type Shown, type Undoable } from "./tray.ts";
import { View } from "./view.ts";
import { Page } from "./page.ts";
import type { Ablated, Payload } from "./core/payload.ts";
import { Second } from "./second.ts";
import { dashboard } from "./dashboard.ts";
import type { BoardData } from "./core/board.ts";
import type { Choice, LiveSource, LookRequest, Run } from "./source.ts";
import type { Values } from "./core/state.ts";

/** Milliseconds after the last key until the model runs: longer if a look takes long, as one that has begun is finished. */
const pauseOf = (look: number) => Math.max(20, Math.min(150, look / 2));

export async function live(server: LiveSource): Promise<void> {
  try {
    const run = await server.run();
    if (run.screen === "runs") {
      const data = (await server.runs({})) as BoardData;
      dashboard(data, { ask: (known) => server.runs(known), address: (name) => server.address(name) });
      return;
    }
    document.documentElement.classList.add("live");
    new Panel(server).begin(run);
  } catch (error) {
    document.body.append(
      el("p", { class: "badge bad", role: "alert" }, `${told(error)}. Open the address that the command printed.`),
    );
  }
}

class Panel {
  private given = "";
  private forced: number[] | null = null; // the tokens up to the last that was chosen by hand
  private base: number[] | null = null; // what was written from there with nothing changed
  private written: number[] | null = null; // what is written now
  private ablated: Ablated[] = [];
  private patch: LookRequest["patch"] = null;
  private original: string | null = null; // the input before a token of it was replaced
  private plain: Payload | null = null; // of this input, with nothing changed
  private payload: Payload | null = null; // what is shown, or its counterpart with the changes
  private shown: Shown = "after";
  private asking: AbortController | null = null;
  private waiting = 0;
  private searched = true; // whether the looks at this input search for what follows
  private took = 0; // milliseconds, of the last look
  private map: ModelMap | null = null;
  private switching = false;
  private streamed = 0; // tokens

  private readonly input = el("textarea", { id: "live-input", rows: 1, spellcheck: "false", dir: "auto" });
  private readonly status = el("p", { class: "note", id: "live-status", role: "status" }, "connecting …");
  private readonly text = new WrittenText((id) => void this.write(id));
  private readonly mapHolder = el("div", { id: "model" }); // where a tour finds it
  private readonly tray = new Tray((which) => void this.showSide(which));
  private readonly result = el("div", {});
  private readonly instead = el(
    "select",
    { id: "live-instead" },
    el("option", { value: "zero" }, "zeros"),
    el("option", { value: "mean" }, "their mean"),
    el("option", { value: "zero here" }, "zeros, at the chosen token"),
    el("option", { value: "mean here" }, "their mean, at the chosen token"),
  );
  private readonly edits = new EditForms({
    replace: (text) => this.edit(text),
    patch: (input, oneHead) => this.patchChosen(input, oneHead),
  });
  private checkpoints = 0;
  private beside: Choice | null = null; // what the look is compared with
  private readonly second = new Second((choice) => {
    this.beside = choice;
    if (this.payload) void this.look({ s: choice ? "beside" : "" });
  });
  private readonly view: View;
  private readonly switches: Switches = {
    active: () => this.switching,
    isOff: (part, head) => this.isOff(part, head),
    toggle: (part, head) => this.toggle(part, head),
    everyHead: () => void this.look({}, { every_head: true }),
    checkpoints: () => this.checkpoints,
    overTraining: () => void this.look({}, { over_training: true }),
    follow: (look, number) => this.server.origin(look, number),
  };

  constructor(private readonly server: LiveSource) {
    this.input.addEventListener("input", () => {
      clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.typed(false), pauseOf(this.took));
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      clearTimeout(this.waiting);
      this.typed(true);
    });
    this.view = new View(this.built(), this.switches);
  }

  /** The first look, at what the command was given. */
  begin({ input: given, fixed, beside, checkpoints }: Run): void {
    this.checkpoints = checkpoints;
    this.second.offer(beside);
    this.input.value = given;
    this.input.readOnly = fixed;
    if (fixed) this.input.title = "This run reads files: give another one to the command.";
    if (given) this.typed(true);
    else {
      this.tell("Type a text: the model runs as you type.");
      this.input.focus();
      document.documentElement.dataset.ready = "yes";
    }
  }

  tell(text: string, wrong = false): void {
    this.status.textContent = text;
    this.status.classList.toggle("wrong", wrong);
  }

  private built(): HTMLElement {
    const button = (text: string, id: string, act: () => void) =>
      el("button", { type: "button", class: "quiet", id, onclick: act }, text);
    this.instead.addEventListener("change", () => this.map?.settle());
    const off = button("Switch off", "live-off", () => {
      this.switching = !this.switching;
      off.setAttribute("aria-pressed", String(this.switching));
      this.map?.settle();
    });
    off.setAttribute("aria-pressed", "false");
    return el(
      "div",
      { class: "panel", role: "region", "aria-label": "Work with the model" },
      el(
        "div",
        { class: "control" },
        el("label", { for: "live-input" }, "Input"),
        this.input,
        button("Save this view", "live-save", () => this.save()),
      ),
      this.status,
      this.text.node,
      el(
        "div",
        { class: "control" },
        el("h2", {}, "The model"),
        off,
        el("label", { for: "live-instead" }, "outputs become"),
        this.instead,
        this.second.node,
        this.edits.node,
      ),
      this.mapHolder,
      this.tray.node,
      this.result,
    );
  }

  /** Take what is typed. A search for what follows the input of a language model takes longer: it waits for Enter. */
  private typed(search: boolean): void {
    const same = this.input.value === this.given && this.payload !== null;
    if (same && (this.searched || !search)) return;
    this.searched = search;
    if (same) this.plain = null;
    else this.read(this.input.value, null);
    if (this.given.trim()) this.look();
    else this.tell("Type a text: the model runs as you type.");
  }

  /** Take another input, all of which is to be written anew; `original` is what it was before an edit. */
  private read(input: string, original: string | null): void {
    this.given = this.input.value = input;
    this.original = original;
    this.written = this.forced = this.base = null;
    this.plain = null;
  }

  /** The sequence that is typed: the first one of tokens. */
  private typedSequence(page: Page): string | null {
    const { sequences } = page.payload;
    return Object.keys(sequences).find((name) => sequences[name].ids && !this.input.readOnly) ?? null;
  }

  /** Put another text in place of the chosen token, and compare with the input as it was. */
  private edit(by: string): void {
    const page = this.view.page,
      name = page && this.typedSequence(page);
    if (!page || !name) return;
    const text = replaced(this.given, page.payload.sequences[name].tokens, page.state.get(`at.${name}`), by);
    if (text === null || !text.trim()) {
      this.tell("This token is not a part of the input's text: change the input itself.", true);
      return;
    }
    const before = this.original ?? this.given;
    this.read(text, text === before ? null : before);
    void this.look();
  }

  /** The place of the chosen token in what a part works on; null where a part is meant at all places. */
  private placeOf(part: string): number | null {
    const page = this.view.page;
    if (!this.instead.value.endsWith("here") || !page) return null;
    const stack = part.replace(/\.?(layers\.|embedding).*$/, ""),
      sequence = page.payload.stacks.find(({ name }) => name === stack)?.sequence;
    return sequence ? page.state.get(`at.${sequence}`) : null;
  }

  private request(changes = true): LookRequest {
    return {
      input: changes ? this.given : (this.original ?? this.given),
      edited_from: changes ? this.original : null,
      written: changes ? this.written : this.base,
      compare: changes ? this.base : null,
      ablated: changes ? this.ablated : [],
      patch: changes ? this.patch : null,
      beside: this.beside,
      search: this.searched,
    };
  }

  /** Run the model; a newer look stops an older one. */
  private async look(kept: Partial<Values> = {}, more: Partial<LookRequest> = {}): Promise<void> {
    this.asking?.abort();
    const asking = (this.asking = new AbortController()),
      began = performance.now();
    try {
      const payload = await this.server.look({ ...this.request(), ...more }, asking.signal);
      if (asking !== this.asking) return;
      this.took = performance.now() - began;
      this.payload = payload;
      if (!payload.change) this.plain = payload;
      this.shown = "after";
      this.show(kept);
      const hint = payload.writer && !payload.trace && !this.searched ? "; Enter searches for what follows" : "";
      this.tell(`computed in ${Math.round(this.took)} ms${hint}`);
      document.documentElement.dataset.looked = String(Number(document.documentElement.dataset.looked ?? 0) + 1);
    } catch (error) {
      if (asking === this.asking) this.tell(told(error), true);
    }
  }

  private show(kept: Partial<Values> = {}): void {
    const payload = this.shown === "before" ? (this.plain ?? this.payload) : this.payload;
    if (!payload) return;
    const values = { ...(this.view.page?.state.values ?? {}), ...kept };
    if (!("s" in kept)) delete values.s;
    void this.view.show(payload, values);
    const page = this.view.page;
    if (!page) return;
    this.map = modelMap(page, this.switches);
    this.mapHolder.replaceChildren(this.map.node);
    this.map.settle();
    this.text.show(page);
    const name = this.typedSequence(page);
    page.state.on(page.looked(), () => {
      this.edits.show(name && visible(page.payload.sequences[name].tokens[page.state.get(`at.${name}`)]));
      this.map?.settle();
    });
    this.tray.show(this.changes(), this.shown);
    this.drawChange(page);
  }

  /** Write on; with `id` that token first, in place of what stands at the chosen place. */
  private async write(id: number | null): Promise<void> {
    const page = this.view.page;
    if (!page) return;
    const prefix = prefixOf(page.payload, id === null ? null : page.place());
    this.forced = id === null ? prefix : [...prefix, id];
    this.base = null;
    if (!(await this.stream(this.forced, page, id !== null))) return;
    this.base = this.written;
    this.plain = null;
    await this.look({ [`at.${page.payload.writer?.sequence}`]: placeOfLast(page.payload, this.forced) });
  }

  /** Write on from these tokens, as they come; false if another request took over. */
  private async stream(start: number[], page: Page, greedy: boolean): Promise<boolean> {
    this.asking?.abort();
    const asking = (this.asking = new AbortController()),
      ids = [...start],
      { state, payload } = page,
      untouched = state.defaults.temperature === state.get("temperature");
    const sampling = {
      temperature: greedy && untouched ? 0 : state.get("temperature"),
      top_k: state.get("top_k"),
      top_p: state.get("top_p"),
      seed: this.text.seed,
      max_tokens: COUNT,
    };
    const ended = payload.writer?.stops.includes(start[start.length - 1]) ?? true;
    this.streamed = 0;
    try {
      if (!ended)
        for await (const each of this.server.write({ ...this.request(), written: start }, sampling, asking.signal)) {
          if (asking !== this.asking) return false;
          ids.push(each.id);
          this.text.add(each);
          this.tell(`writing: ${++this.streamed} tokens`);
        }
    } catch (error) {
      if (asking === this.asking) this.tell(told(error), true);
      return false;
    }
    if (asking !== this.asking) return false;
    this.written = ids;
    return true;
  }

  private isOff(part: string, head: number | null): boolean {
    const place = this.placeOf(part);
    return this.ablated.some((each) => each.part === part && each.head === head && each.place === place);
  }

  private toggle(part: string, head: number | null): void {
    const instead = this.instead.value.startsWith("mean") ? "mean" : "zero",
      place = this.placeOf(part),
      same = this.ablated.find((each) => each.part === part && each.head === head && each.place === place);
    if (same) this.undo(same);
    else {
      this.ablated = [...this.ablated, { part, head, instead, place }];
      this.map?.settle();
      void this.again();
    }
  }

  private undo(change: Ablated): void {
    this.ablated = this.ablated.filter((each) => each !== change);
    this.map?.settle();
    void this.again();
  }

  /** Run again with what is switched off now; a text that was branched is written anew from the branch. */
  private async again(): Promise<void> {
    const page = this.view.page;
    if (!this.forced || !page || !this.ablated.length) this.written = this.base;
    else if (!(await this.stream(this.forced, page, true))) return;
    await this.look();
  }

  private patchChosen(input: string, oneHead: boolean): void {
    const page = this.view.page,
      { tap } = page?.attention?.entry ?? {},
      head = oneHead && page ? page.state.get("head") : null;
    if (!tap || !input.trim()) {
      this.tell("Choose a part on the map, and type the other input first.", true);
      return;
    }
    this.patch = { input, parts: [tap], head };
    this.look();
  }

  /** What is changed now, each change with how to undo it. */
  private changes(): Undoable[] {
    const { patch, original } = this,
      found: Undoable[] = this.ablated.map((each) => ({
        label: `${partName(each.part, each.head)} ${each.instead === "mean" ? "mean" : "off"}${placeName(each.place)}`,
        undo: () => this.undo(each),
      }));
    if (original !== null)
      found.push({
        label: `edited: ${shortened(original, 24)}`,
        undo: () => {
          this.read(original, null);
          void this.look();
        },
      });
    if (patch)
      found.push({
        label: `${patch.parts.map((part) => partName(part, patch.head)).join(", ")} patched`,
        undo: () => {
          this.patch = null;
          this.look();
        },
      });
    return found;
  }

  /** Show the figures of the input as it was, or with the changes. */
  private async showSide(which: Shown): Promise<void> {
    if (!this.plain) this.plain = await this.server.look(this.request(false));
    this.shown = which;
    this.show();
  }

  private drawChange(page: Page): void {
    const told = this.payload?.change;
    if (!told) {
      this.result.replaceChildren();
      return;
    }
    const shownPage = page.payload === this.payload ? page : new Page(this.payload as Payload);
    this.result.replaceChildren(change(shownPage, told));
    this.result.setAttribute("data-changed", changedParts(told));
    for (const { draw } of shownPage.redraws.slice(-1)) draw();
  }

  private async save(): Promise<void> {
    const page = this.view.page;
    if (!page?.payload.look) return;
    const state: Partial<Values> = { ...page.state.values };
    delete state.s; // a file opens at its top, in the theme of who opens it
    delete state.theme;
    delete state.tour;
    try {
      saved(await this.server.save(page.payload.look, state), "look.html");
      this.tell("saved as look.html: it opens without a network");
    } catch (error) {
      this.tell(told(error), true);
    }
  }
}

function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
