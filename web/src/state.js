// What is chosen on the page, who wants to know of it, and the address that brings it back.

export class State {
  constructor(defaults) {
    this.defaults = defaults;
    this.values = { ...defaults };
    this.listeners = [];
  }

  get(key) {
    return this.values[key];
  }

  /** Call `draw` whenever one of these keys changes, and once now. */
  on(keys, draw) {
    this.listeners.push({ keys, draw });
    draw();
  }

  set(changes) {
    const changed = Object.keys(changes).filter((key) => this.values[key] !== changes[key]);
    if (!changed.length) return;
    Object.assign(this.values, changes);
    for (const { keys, draw } of this.listeners) if (keys.some((key) => changed.includes(key))) draw();
    this.write();
  }

  /** The address of what is shown: what differs from the start, after the #. */
  hash() {
    const told = new URLSearchParams();
    for (const [key, value] of Object.entries(this.values)) {
      if (value !== this.defaults[key] && value !== null) told.set(key, String(value));
    }
    return told.toString();
  }

  write() {
    const hash = this.hash();
    try {
      history.replaceState(null, "", hash ? `#${hash}` : "#");
    } catch {
      /* a page inside another may not */
    }
  }

  /** Take up what an address says, each value in the type of its default; what it says of unknown things is dropped. */
  read(hash, allowed) {
    const changes = {};
    const plain = /^#([a-z-]+)$/.exec(hash); // the bare name of a section
    for (const [key, text] of new URLSearchParams(plain ? `s=${plain[1]}` : hash.replace(/^#/, ""))) {
      if (!(key in this.defaults)) continue;
      const value = typeof this.defaults[key] === "number" ? Number(text) : text;
      if (allowed(key, value)) changes[key] = value;
    }
    this.set(changes);
  }
}
