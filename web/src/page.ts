// What all figures share: the payload, what is chosen, the attention that is looked at.

import { Attention, type Story } from "./core/attention.ts";
import { openerOf, type Open } from "./core/tensors.ts";
import type { Payload } from "./core/payload.ts";
import { visible } from "./dom.ts";
import { pause } from "./canvas.ts";
import { State, type Key, type Values } from "./core/state.ts";

/** Whether an element is on the screen, or less than a screen away from it. */
function inSight(root: HTMLElement): boolean {
  const { top, bottom } = root.getBoundingClientRect();
  return bottom > -innerHeight && top < 2 * innerHeight;
}

interface Redraw {
  draw: () => void;
  root: HTMLElement | null;
}

/** What is looked at: one query of one head. */
export interface Look {
  attention: Attention;
  head: number;
  i: number;
  j: number;
  story: Story;
  who: string;
  queries: string[];
  keys: string[];
}

/** The address of a page is that of what is shown. */
function remember(hash: string): void {
  try {
    history.replaceState(null, "", hash ? `#${hash}` : "#");
  } catch {
    /* a page inside another may not */
  }
}

export class Page {
  readonly open: Open;
  readonly attentions: Attention[];
  readonly state: State;
  readonly redraws: Redraw[] = [];
  readonly themes: (() => void)[] = [];
  private readonly names = new Map<string, string[]>(); // of a sequence's tokens, as sentences call them
  private readonly late = new Set<() => void>(); // what is to be drawn again, out of sight
  private catching = false;
  private told: Look | null = null;

  constructor(readonly payload: Payload) {
    this.open = openerOf(payload.tensors);
    this.attentions = payload.attentions.map((entry) => new Attention(entry, this.open));
    const defaults: Values = {
      attention: this.firstAttention(),
      head: 0,
      key: -1,
      theme: "auto",
      alpha: payload.trace ? payload.trace.alpha : 0,
      line: 0,
      off: "",
      rollout: "off",
      s: "",
      temperature: 1,
      top_k: 0,
      top_p: 1,
      lapse: Math.max(0, (payload.time_lapse?.looks.length ?? 0) - 1),
      of: "",
      dim: 0,
      logit: -1,
      tour: "",
    };
    for (const [name, { tokens, start }] of Object.entries(payload.sequences))
      defaults[`at.${name}`] = start ?? Math.max(0, tokens.length - 1);
    this.state = new State({ ...defaults, ...payload.start }, remember);
    this.state.on(this.looked(), () => {
      this.told = null;
    });
  }

  /** The last layer that looks from what is written at what was read, else the last of all. */
  firstAttention(): number {
    const last = (kind: "self" | "cross") => this.attentions.map(({ entry }) => entry.kind).lastIndexOf(kind);
    return Math.max(0, last("cross") >= 0 ? last("cross") : last("self"));
  }

  get attention() {
    return this.attentions[this.state.get("attention")];
  }

  choose(sequence: string, n: number): void {
    const changes: Partial<Values> = { [`at.${sequence}`]: n };
    const entry = this.attention && this.attention.entry;
    if (entry && entry.queries === sequence) changes.key = -1;
    else if (entry && entry.keys === sequence) changes.key = n;
    this.state.set(changes);
  }

  /** What is looked at: one query of one head. The key is the chosen one, else the one with most weight. */
  look(): Look {
    if (this.told) return this.told;
    const attention = this.attention,
      { queries, keys } = attention.entry;
    const head = Math.min(this.state.get("head"), attention.heads - 1),
      i = Math.min(this.state.get(`at.${queries}`), attention.T - 1);
    const story = attention.story(head, i),
      chosen = this.state.get("key");
    const j =
      chosen >= 0
        ? Math.min(chosen, attention.S - 1)
        : story.keys.reduce((best, key) => (key.weight > best.weight ? key : best)).j;
    const cross = attention.entry.kind === "cross",
      asking = this.namesOf(queries, attention.T, cross),
      who = cross && this.payload.sequences[queries].writes ? `Writing ${asking[i]}` : asking[i];
    this.told = { attention, head, i, j, story, who, queries: asking, keys: this.namesOf(keys, attention.S) };
    return this.told;
  }

  /** What the first `count` tokens of a sequence are called; with `writing`, after what is written at their places. */
  namesOf(name: string, count: number, writing = false): string[] {
    const key = `${name} ${count} ${writing}`;
    const known = this.names.get(key);
    if (known) return known;
    const { tokens, writes, unit, before } = this.payload.sequences[name];
    const made = tokens.slice(0, count).map((piece, n) => {
      if (writing && writes) return `${visible(writes[n] ?? "")} (after ${visible(piece)})`;
      return unit ? (n < before ? `${piece} token` : `${unit} ${piece}`) : visible(piece);
    });
    this.names.set(key, made);
    return made;
  }

  /** Draw when the figure stands on the page, whenever one of these keys changes, and when the room does.
   *
   * With `root`, the figure's element, a figure out of sight is drawn a little later: first what is seen. */
  watch(keys: Key[], draw: () => void, root: HTMLElement | null = null): void {
    this.redraws.push({ draw, root });
    this.state.onChange(keys, () => this.drawn({ draw, root }));
  }

  /** The same, for whatever another query, key or head changes. */
  onLook(draw: () => void, root: HTMLElement | null = null): void {
    this.watch(this.looked(), draw, root);
  }

  /** The keys of the state that say what is looked at. */
  looked(): Key[] {
    const places = Object.keys(this.payload.sequences).map((name): Key => `at.${name}`);
    return ["attention", "head", "key", ...places];
  }

  onSize(draw: () => void): void {
    this.redraws.push({ draw, root: null });
  }

  drawn({ draw, root }: Redraw): void {
    if (!root || root.hidden || inSight(root)) {
      this.late.delete(draw);
      draw();
    } else {
      this.late.add(draw);
      this.catchUp();
    }
  }

  /** Draw what waits, a figure at a time: the page answers in between. */
  async catchUp(): Promise<void> {
    if (this.catching) return;
    this.catching = true;
    document.documentElement.dataset.late = "yes";
    while (this.late.size) {
      await pause();
      const [next] = this.late;
      if (next) next();
      this.late.delete(next);
    }
    delete document.documentElement.dataset.late;
    this.catching = false;
  }

  onTheme(draw: () => void): void {
    this.themes.push(draw);
  }

  place(): number {
    const { output } = this.payload;
    if (!output) return 0;
    const { sequence, ids } = output;
    return sequence ? Math.min(this.state.get(`at.${sequence}`), ids.length - 1) : 0;
  }

  redraw(): void {
    for (const each of this.redraws) this.drawn(each);
  }

  /** Whether an address may set this. */
  allows(key: Key, given: string | number): boolean {
    if (typeof given === "string") return this.allowsText(key, given);
    if (key === "alpha") return given >= 0 && given <= 10;
    if (key === "temperature") return given >= 0 && given <= 5;
    if (key === "top_p") return given > 0 && given <= 1;
    return Number.isInteger(given) && given >= (key === "key" || key === "logit" ? -1 : 0) && given < this.countOf(key);
  }

  /** How many of something there are to choose from. */
  private countOf(key: Key): number {
    const { trace, sequences, time_lapse } = this.payload;
    if (key === "attention") return this.attentions.length;
    if (key === "line") return trace?.lines.length ?? 0;
    if (key === "lapse") return time_lapse?.looks.length ?? 0;
    return key.startsWith("at.") ? sequences[key.slice(3)].tokens.length : Infinity;
  }

  private allowsText(key: Key, value: string): boolean {
    if (key === "theme") return ["auto", "light", "dark"].includes(value);
    if (key === "s") return /^[a-z-]*$/.test(value);
    if (key === "rollout") return ["one", "mean", "rollout"].includes(value);
    if (key === "of") return ["", "q", "k", "v"].includes(value);
    if (key === "tour") return /^(\d{3}\.\d{1,2})?$/.test(value);
    return key === "off" && /^\d*$/.test(value);
  }
}
