// Where the page's numbers come from: the file itself, or a server on this machine that runs the model.

import type { BoardData, BoardNews } from "./core/board.ts";
import type { Ablated, NumberChoice, OriginEntry, Payload } from "./core/payload.ts";
import type { Sampling } from "./core/sampling.ts";
import type { Values } from "./core/state.ts";

export interface LookRequest {
  input: string;
  written: number[] | null; // token ids; null: what the model writes by itself
  compare?: number[] | null; // what was written before the change
  ablated: Ablated[];
  patch: { input: string; parts: string[]; head: number | null } | null;
  edited_from?: string | null; // the input before an edit
  search?: boolean; // for what follows the input of a language model; true if not given
  every_head?: boolean;
  over_training?: boolean; // what attention is in each checkpoint
  beside?: Choice | null; // a second model that reads the same
}

/** A token that was written, with the likeliest ones at its place. */
export interface Written {
  id: number;
  piece: string;
  share: number;
  top: [number, string, number][]; // id, piece, logit
  log_z: number;
  entropy: number;
  ends: boolean;
  ms: number;
}

/** A run, or a checkpoint of it. */
export interface Choice {
  run: string;
  step: number | null;
}

export interface Run {
  screen: "look" | "runs";
  run: string;
  task: string;
  input: string;
  fixed: boolean; // whether the input may be changed here
  beside: Choice[]; // what it can be compared with
  checkpoints: number;
}

export interface Source {
  /** The page of an input; a file has one. */
  look(request: LookRequest, signal?: AbortSignal): Promise<Payload>;
}

export interface LiveSource extends Source {
  run(): Promise<Run>;
  runs(known: Record<string, string>): Promise<BoardNews>;
  address(run: string): string;
  write(
    request: LookRequest,
    sampling: Sampling & { seed: number; max_tokens: number },
    signal: AbortSignal,
  ): AsyncIterable<Written>;
  origin(look: string, number: NumberChoice): Promise<OriginEntry>;
  save(look: string, state: Partial<Values>): Promise<Blob>;
}

export class FileSource implements Source {
  constructor(private readonly payload: Payload) {}

  async look(): Promise<Payload> {
    return this.payload;
  }
}

export class ServerSource implements LiveSource {
  /** `chosen` is the run that the address names; null: what the server begins with. */
  constructor(
    private readonly key: string,
    private readonly chosen: string | null,
  ) {}

  async run(): Promise<Run> {
    return (await (this.chosen ? this.asked("POST", "/page/open", {}) : this.asked("GET", "/page/run"))).json();
  }

  async runs(known: Record<string, string>): Promise<BoardNews> {
    return (await this.asked("POST", "/page/runs", { known }, null, false)).json();
  }

  address(run: string): string {
    return `/?run=${encodeURIComponent(run)}#key=${this.key}`;
  }

  async look(request: LookRequest, signal?: AbortSignal): Promise<Payload> {
    return (await this.asked("POST", "/page/look", request, signal)).json();
  }

  async origin(look: string, number: NumberChoice): Promise<OriginEntry> {
    return (await this.asked("POST", "/page/number", { look, ...number })).json();
  }

  async save(look: string, state: Partial<Values>): Promise<Blob> {
    return (await this.asked("POST", "/page/save", { look, state })).blob();
  }

  async *write(
    request: LookRequest,
    sampling: Sampling & { seed: number; max_tokens: number },
    signal: AbortSignal,
  ): AsyncIterable<Written> {
    const answer = await this.asked("POST", "/page/write", { ...request, ...sampling }, signal),
      reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; reader;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const found = JSON.parse(data);
        if (found.error) throw new Error(found.error.message);
        yield found as Written;
      }
    }
  }

  private async asked(
    method: string,
    path: string,
    body?: object,
    signal?: AbortSignal | null,
    ofRun = true,
  ): Promise<Response> {
    const told = body && ofRun && this.chosen ? { ...body, run: this.chosen } : body;
    const answer = await fetch(path, {
      method,
      signal: signal ?? null,
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
      body: told ? JSON.stringify(told) : null,
    });
    if (answer.ok) return answer;
    const error = await answer.json().catch(() => null);
    throw new Error(error?.error?.message ?? `the server answered ${answer.status}`);
  }
}

const KEY = "headway-look-key";

export type Found =
  | { kind: "file"; source: FileSource }
  | { kind: "dashboard"; data: BoardData }
  | { kind: "live"; source: ServerSource };

/** The file's own data, or the server of the key in the address, which is then taken out of the address. */
export function sourceOf(page: Document): Found {
  const text = page.getElementById("payload")?.textContent ?? "";
  if (text.trim()) {
    const data = JSON.parse(text) as Payload & { dashboard?: BoardData };
    return data.dashboard
      ? { kind: "dashboard", data: data.dashboard }
      : { kind: "file", source: new FileSource(data) };
  }
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem(KEY, given); // for a reload; another tab needs the address again
    history.replaceState(null, "", "#");
  }
  const run = new URLSearchParams(location.search).get("run");
  return { kind: "live", source: new ServerSource(given ?? sessionStorage.getItem(KEY) ?? "", run) };
}
