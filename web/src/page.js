// What all figures share: the payload, what is chosen, the attention that is looked at.

import { Attention } from "./attention.js";
import { openerOf } from "./tensors.js";
import { visible } from "./dom.js";
import { State } from "./state.js";

export class Page {
  constructor(payload) {
    this.payload = payload;
    this.open = openerOf(payload.tensors);
    this.attentions = payload.attentions.map((entry) => new Attention(entry, this.open));
    const defaults = {
      attention: this.firstAttention(),
      head: 0,
      key: -1,
      theme: "auto",
      alpha: payload.trace ? payload.trace.alpha : 0,
      line: 0,
      off: "",
      rollout: "off",
    };
    for (const [name, { tokens, start }] of Object.entries(payload.sequences))
      defaults[`at.${name}`] = start ?? Math.max(0, tokens.length - 1);
    this.state = new State(defaults);
    this.redraws = [];
    this.themes = [];
    this.told = null;
    this.state.on(["attention", "head", "key", ...Object.keys(payload.sequences).map((name) => `at.${name}`)], () => {
      this.told = null;
    });
  }

  /** The last layer that looks from what is written at what was read, else the last of all. */
  firstAttention() {
    const last = (kind) => this.attentions.map(({ entry }) => entry.kind).lastIndexOf(kind);
    return Math.max(0, last("cross") >= 0 ? last("cross") : last("self"));
  }

  get attention() {
    return this.attentions[this.state.get("attention")];
  }

  choose(sequence, n) {
    const changes = { [`at.${sequence}`]: n };
    const entry = this.attention && this.attention.entry;
    if (entry && entry.queries === sequence) changes.key = -1;
    else if (entry && entry.keys === sequence) changes.key = n;
    this.state.set(changes);
  }

  /** What is looked at: one query of one head. The key is the chosen one, else the one with most weight. */
  look() {
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
    const tokens = (name, count) => {
      const all = this.payload.sequences[name].tokens;
      return count === all.length ? all : all.slice(0, count);
    };
    const writes = attention.entry.kind === "cross" && this.payload.sequences[queries].writes;
    const asking = tokens(queries, attention.T).map((piece, n) =>
      writes ? `${visible(piece)}\u2009→\u2009${visible(writes[n] ?? "")}` : piece,
    );
    this.told = { attention, head, i, j, story, queries: asking, keys: tokens(keys, attention.S) };
    return this.told;
  }

  /** Draw when the figure stands on the page, whenever one of these keys changes, and when the room does. */
  watch(keys, draw) {
    this.redraws.push(draw);
    this.state.listeners.push({ keys, draw });
  }

  /** The same, for whatever another query, key or head changes. */
  onLook(draw) {
    this.watch(["attention", "head", "key", ...Object.keys(this.payload.sequences).map((name) => `at.${name}`)], draw);
  }

  onSize(draw) {
    this.redraws.push(draw);
  }

  onTheme(draw) {
    this.themes.push(draw);
  }

  place() {
    const { sequence, ids } = this.payload.output;
    return sequence ? Math.min(this.state.get(`at.${sequence}`), ids.length - 1) : 0;
  }

  redraw() {
    for (const draw of this.redraws) draw();
  }

  /** Whether an address may set this. */
  allows(key, value) {
    if (key === "attention") return Number.isInteger(value) && value >= 0 && value < this.attentions.length;
    if (key.startsWith("at."))
      return Number.isInteger(value) && value >= 0 && value < this.payload.sequences[key.slice(3)].tokens.length;
    if (key === "theme") return ["auto", "light", "dark"].includes(value);
    if (key === "rollout") return ["one", "mean", "rollout"].includes(value);
    if (key === "off") return /^\d*$/.test(value);
    if (key === "alpha") return value >= 0 && value <= 10;
    if (key === "line")
      return (
        Number.isInteger(value) && value >= 0 && value < (this.payload.trace ? this.payload.trace.lines.length : 0)
      );
    return Number.isInteger(value) && value >= (key === "key" ? -1 : 0);
  }
}
