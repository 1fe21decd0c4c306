// What a page is made from, as src/headway/inspection/page/payload.py writes it.

export interface StoredTensor {
  type: "float32" | "int16" | "int8" | "uint8" | "bit";
  shape: number[];
  data: string;
  scales?: string;
}

export type Position =
  | { kind: "rotary"; base: number; layout: "interleaved" | "halves" }
  | { kind: "alibi"; slopes: number[] }
  | { kind: "t5"; table: string }
  | { kind: "shaw"; keys: string; values: string | null };

export interface AttentionEntry {
  name: string;
  tap: string;
  unit: string;
  stack: string;
  label: string;
  layer: number;
  kind: "self" | "cross";
  queries: string; // the names of two sequences
  keys: string;
  heads: number;
  groups: number;
  scale: number[];
  q: string; // the names of tensors, as all strings below
  k: string;
  v: string;
  rows: number[];
  weights: string;
  out: string;
  mask: string | null;
  mask_words: string;
  others: { rows: number[]; q: string; k: string; v: string } | null;
  energy: string | null;
  hard: boolean;
  position: Position | null;
}

export interface Sequence {
  label: string;
  tokens: string[];
  ids?: number[];
  start?: number;
  writes?: string[];
  unit?: string;
  before: number; // tokens in front of the patches, of a picture
  grid?: [number, number];
}

export interface NormEntry {
  kind: "layer" | "rms";
  eps: number;
  gain: string | null;
  shift: string | null;
}
export interface BlockStep {
  part: "input" | "self" | "cross" | "feedforward";
  out: string;
  norm: NormEntry | null; // of the sum, in a post-norm block
}

export interface Layer {
  left: string | null;
  added: Record<string, string>;
  steps?: BlockStep[] | null; // what is added to the stream, part by part; the first is what enters
}

export interface Stack {
  name: string;
  label: string;
  sequence: string;
  positions: string;
  depth: { steps: string; cost: string } | null;
  input: { label: string; tensor: string }[];
  layers: Layer[];
  out: string | null;
}

export interface OutputEntry {
  label: string;
  sequence: string | null;
  size: number;
  unit: string; // what there are probabilities of: "token", "class"
  drawn: boolean; // whether a text is written by drawing from them
  words: Record<string, string>;
  ids: number[][];
  logits: string;
  shares: string;
  normaliser: string;
  whole: { first: number; logits: string } | null; // every logit of the places from `first` on
  targets: (number | null)[];
  target_logits: string;
  ranks: number[];
}

export interface LensEntry {
  layers: string[];
  ids: number[][][];
  shares: string;
  words: Record<string, string>;
}

export interface AblationEntry {
  heads: { attention: number; head: number }[];
  changes: string;
  needed: { head: number; place: number };
  said: number[][];
  plain: number[];
  words: Record<string, string>;
}

export interface TraceNode {
  parent: number | null;
  step: number;
  piece: string;
  nats: number;
  total: number;
  status: "won" | "ended" | "kept" | "pruned";
}

export interface TraceLine {
  text: string;
  nodes: number[];
  length: number;
  log_probability: number;
  stopped: boolean;
}

export interface TraceEntry {
  alpha: number;
  penalty: string;
  beam: number;
  source: string[];
  nodes: TraceNode[];
  lines: TraceLine[];
  looks: (string | null)[];
}

export interface ImageEntry {
  sequence: string;
  pixels: string;
  outside: [number, number, number];
  shift: number | null;
}

export interface MapPart {
  name: string; // of a tap: "decoder.layers.1.cross"
  kind: "self" | "cross" | "feedforward" | "embedding";
  heads: number;
  ablatable: boolean;
}
export interface MapStack {
  name: string;
  embedding?: string | null; // the part that the first layer reads
  layers: { layer: number | null; parts: MapPart[] }[];
}

export interface Ablated {
  part: string;
  head: number | null;
  instead: "zero" | "mean";
  place?: number | null; // a token's; null: all of them
}
export interface ChangeEntry {
  ablated: (Ablated & { label: string })[];
  patched: string[];
  patched_heads?: number[] | null;
  note: string;
  inputs?: [string, string] | null; // before and after an edit
  said: [string, string];
  places: { came: string[]; before: string; after: string; likeliest: [string[], string[]] } | null;
}

/** Looks at one input that were kept while the model trained. */
export interface TimeLapseEntry {
  given: string;
  left_out: number;
  attentions: {
    name: string;
    unit: string;
    label: string;
    layer: number;
    kind: "self" | "cross";
    queries: string;
    keys: string;
  }[];
  looks: {
    step: number;
    loss: number | null;
    sequences: Record<string, string[]>;
    weights: Record<string, string>; // tensors (H, T, S), by the attention's name
    log_probabilities: (number | null)[] | null;
    came: (string | null)[] | null; // the tokens these are of
  }[];
}

/** A second model that reads the same tokens. */
export type OtherEntry = Pick<
  Payload,
  "run" | "task" | "steps" | "model" | "parameters" | "given" | "said" | "sequences" | "attentions" | "output" | "precision" | "tensors"
>; // prettier-ignore

/** A component of a query, key or value of a token, or a logit: one that can be followed back to its weights. */
export interface NumberChoice {
  part: "q" | "k" | "v" | "logit";
  token: number; // of a logit: the place of the output
  index: number; // the dimension; of a logit the id of the token that it is of
  attention: string; // the name of its entry
  head: number;
  query: number;
}
export interface OriginRow {
  row: number; // of the matrix
  x: string; // what is read, and the row: tensors of the origin
  w: string;
  bias: number | null;
  out: number; // their product and the bias, as PyTorch has it
  factor: number; // in the number, after a rotation
  norm: { mean: number; root: number; gain: number; shift: number } | null;
}
/** What gives a number: factor · norm(x·w + bias), added up over the rows. */
export interface OriginEntry {
  number: NumberChoice;
  value: number; // PyTorch's
  weight: string; // the name of the parameter
  shape: [number, number];
  rows: OriginRow[];
  tensors: Record<string, StoredTensor>;
}

export interface NearEntry {
  space: "table" | "sentences";
  lists: [string, number][][];
  /** The tokens, `own` of them the text's, and their neighbours by their first two principal components. */
  map?: { words: string[]; own: number; places: [number, number][]; shares: [number, number] } | null;
}

export interface Payload {
  headway: number;
  kind: string;
  title: string;
  run: string;
  task: string;
  data: string;
  score: string;
  model: string;
  parameters: number;
  steps: number[];
  given: string;
  said: string;
  sequences: Record<string, Sequence>;
  near: Record<string, NearEntry>;
  output: OutputEntry | null;
  lens: LensEntry | null;
  image?: ImageEntry;
  rollout?: string;
  trace?: TraceEntry;
  stacks: Stack[];
  precision: "float32" | "int16";
  attentions: AttentionEntry[];
  left_out: number;
  ablation: AblationEntry | null;
  ablation_left_out: string;
  map: MapStack[];
  change: ChangeEntry | null;
  other?: OtherEntry;
  time_lapse?: TimeLapseEntry;
  origins?: OriginEntry[]; // of the numbers that were followed back to their weights
  look?: string; // live: the name to save the view by
  writer?: { sequence: string; begin: number; stops: number[] } | null; // live: where tokens are written
  start: Record<string, number>;
  checks: { tensor: string; every: number; values: string }[];
  tensors: Record<string, StoredTensor>;
}
