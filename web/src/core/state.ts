// What is chosen on the page, the observers of it, and the address that brings it back.

export interface Values {
  attention: number;
  head: number;
  key: number; // -1: the one with most weight
  theme: string;
  alpha: number;
  line: number;
  off: string;
  rollout: string;
  s: string; // the section that an address leads to
  temperature: number;
  top_k: number; // 0: all
  top_p: number;
  lapse: number; // which look of those that were kept while the model trained
  of: string; // what is followed back to its weights: "q", "k" or "v" of the chosen token; empty: nothing
  dim: number; // the dimension of it
  logit: number; // the id of the token whose logit is followed back; -1: none
  tour: string; // the stop of a guided tour, "002.3"; empty: none
  [place: `at.${string}`]: number;
}
export type Key = keyof Values;
type Value = string | number;

export class State {
  readonly values: Values;
  readonly listeners: { keys: Key[]; draw: () => void }[] = [];

  /** `remember` is given the address of what is shown whenever that changes. */
  constructor(
    readonly defaults: Values,
    private readonly remember: (hash: string) => void = () => {},
  ) {
    this.values = { ...defaults };
  }

  get<K extends Key>(key: K): Values[K] {
    return this.values[key];
  }

  /** Call `draw` whenever one of these keys changes. */
  onChange(keys: Key[], draw: () => void): void {
    this.listeners.push({ keys, draw });
  }

  /** The same, and once now. */
  on(keys: Key[], draw: () => void): void {
    this.onChange(keys, draw);
    draw();
  }

  set(changes: Partial<Values>): void {
    const changed = (Object.keys(changes) as Key[]).filter((key) => this.values[key] !== changes[key]);
    if (!changed.length) return;
    Object.assign(this.values, changes);
    for (const { keys, draw } of this.listeners) if (keys.some((key) => changed.includes(key))) draw();
    this.remember(this.hash());
  }

  /** The address of what is shown: what differs from the start, after the #. */
  hash(): string {
    const told = new URLSearchParams();
    for (const [key, value] of Object.entries(this.values) as [Key, Value][]) {
      if (value !== this.defaults[key] && value !== null) told.set(key, String(value));
    }
    return told.toString();
  }

  /** Read an address, each value in the type of its default; unknown keys and values that are not allowed are dropped. */
  read(hash: string, allowed: (key: Key, value: Value) => boolean): void {
    const changes: Record<string, Value> = {};
    const plain = /^#([a-z-]+)$/.exec(hash); // the bare name of a section
    for (const [name, text] of new URLSearchParams(plain ? `s=${plain[1]}` : hash.replace(/^#/, ""))) {
      if (!Object.hasOwn(this.defaults, name)) continue;
      const key = name as Key,
        value = typeof this.defaults[key] === "number" ? Number(text) : text;
      if (allowed(key, value)) changes[key] = value;
    }
    this.set(changes as Partial<Values>);
  }
}
