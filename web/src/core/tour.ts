// Guided tours: for each lecture deck a list of stops, told and asked with the numbers of the reader's own run.

import type { Attention, Story } from "./attention.ts";
import { chainOf } from "./chain.ts";
import { figures, percent } from "./numbers.ts";
import type { Payload } from "./payload.ts";
import { amount, choose, type Question } from "./question.ts";
import { ranked } from "./ranking.ts";
import type { Key, Values } from "./state.ts";
import { doubt, type Open } from "./tensors.ts";

/** What a stop reads: the run, and what is selected. */
export interface TourRun {
  readonly payload: Payload;
  readonly attentions: Attention[];
  readonly open: Open;
  readonly state: { get<K extends Key>(key: K): Values[K] };
  look(): {
    attention: Attention;
    head: number;
    i: number;
    j: number;
    story: Story;
    queries: string[];
    keys: string[];
  };
  place(): number;
  namesOf(name: string, count: number, writing?: boolean): string[];
}

export interface Stop {
  title: string;
  at: string; // the section, and where one figure of it is meant, "section/figure"
  select?: (run: TourRun) => Partial<Values>;
  text: (run: TourRun) => string;
  question: (run: TourRun) => Question | null; // null: this run has nothing to show here
}

export interface Tour {
  id: string; // the deck
  title: string;
  stops: { name: string; slide: string }[];
}

const quoted = (text: string) => `“${text}”`;
const listed = (items: string[]) => items.slice(0, 12).join(" · ") + (items.length > 12 ? " …" : "");

function lookOf(run: TourRun) {
  const look = run.look(),
    allowed = look.story.keys.filter((key) => key.allowed),
    best = [...allowed].sort((a, b) => b.weight - a.weight);
  return {
    ...look,
    allowed,
    best,
    query: quoted(look.queries[look.i]),
    key: quoted(look.keys[look.j]),
    name: (j: number) => `${look.keys[j]} (${j + 1})`,
  };
}

/** The stack that the selected query belongs to, else the first. */
function stackOf({ payload, attentions, state }: TourRun) {
  const stack = attentions[state.get("attention")]?.entry.stack;
  return payload.stacks.find(({ name }) => name === stack) ?? payload.stacks[0];
}

function tokenOf(run: TourRun, sequence: string) {
  const { tokens } = run.payload.sequences[sequence],
    n = Math.min(run.state.get(`at.${sequence}`), tokens.length - 1);
  return { n, name: quoted(run.namesOf(sequence, tokens.length)[n]) };
}

/** The layer of a stack that is selected, or its last one. */
function layerOf(run: TourRun) {
  const entry = run.attentions[run.state.get("attention")]?.entry,
    stack = stackOf(run),
    layer = entry?.stack === stack?.name ? entry.layer : stack.layers.length - 1;
  return Math.min(Math.max(layer ?? 0, 0), stack.layers.length - 1);
}

/** The whole of what a place of the output is likely to be, most likely first. */
function outputAt(run: TourRun) {
  const told = run.payload.output;
  if (!told) return null;
  const place = run.place(),
    logits = run.open(told.logits),
    K = logits.shape[1],
    normaliser = run.open(told.normaliser).data[place];
  const list = told.ids[place].map((id, n) => ({
    word: told.words[id].trim() || "space",
    logit: logits.data[place * K + n],
  }));
  return { told, place, list: list.map((each) => ({ ...each, share: Math.exp(each.logit - normaliser) })) };
}

const ofKind = (run: TourRun, kind: "self" | "cross") => run.attentions.findIndex(({ entry }) => entry.kind === kind);

/** The selection of an attention of this kind, unless one is selected. */
function selecting(kind: "self" | "cross") {
  return (run: TourRun): Partial<Values> => {
    const found = run.attentions.map(({ entry }) => entry.kind).lastIndexOf(kind),
      chosen = run.attentions[run.state.get("attention")]?.entry.kind;
    return found < 0 || chosen === kind ? { key: -1 } : { attention: found, key: -1 };
  };
}

/** A query that may attend to several keys, so that there is something to weigh. */
function asking(run: TourRun): Partial<Values> {
  if (!run.attentions.length) return {};
  const { attention, allowed } = lookOf(run);
  return allowed.length > 1 ? { key: -1 } : { key: -1, [`at.${attention.entry.queries}`]: attention.T - 1 };
}

export const STOPS: Record<string, Stop> = {
  model: {
    title: "The model",
    at: "model",
    text: ({ payload }) =>
      `This model (${payload.model}) has ${payload.parameters.toLocaleString("en")} parameters. Its map shows every layer in the order in which it runs: attention mixes the tokens, and a network works on each token alone.`,
    question: ({ payload }) => {
      const heads = payload.map
        .flatMap(({ layers }) => layers.flatMap(({ parts }) => parts))
        .reduce((sum, part) => sum + part.heads, 0);
      const layers = payload.map.reduce((sum, each) => sum + each.layers.length, 0);
      if (!heads) return null;
      return amount(
        "How many attention heads has the model in all?",
        heads,
        `${heads} heads in ${layers} layer${layers === 1 ? "" : "s"}; each is one box with a number on the map.`,
        0,
      );
    },
  },
  tokens: {
    title: "A text becomes tokens",
    at: "input",
    text: ({ payload }) => {
      const [first] = Object.values(payload.sequences).filter(({ grid, ids }) => !grid && ids);
      return first
        ? `${first.label}: ${listed(first.tokens.map((piece) => piece.trim() || "␣"))}. The model never sees letters, only the number of each token in its vocabulary. A dot in front means that the token continues a word.`
        : "";
    },
    question: ({ payload }) => {
      const [first] = Object.values(payload.sequences).filter(({ grid, ids }) => !grid && ids);
      if (!first) return null;
      const { length } = first.tokens;
      return amount(
        `How many tokens are read (${first.label.toLowerCase()})?`,
        length,
        `${length} tokens, special ones such as the end of the text included.`,
        0,
      );
    },
  },
  patches: {
    title: "A picture becomes tokens",
    at: "input",
    text: () =>
      "The picture is cut into patches of equal size. Each patch is flattened and projected to a vector: from here on a picture is a text whose tokens are patches.",
    question: ({ payload }) => {
      const sequence = Object.values(payload.sequences).find(({ grid }) => grid);
      if (!sequence?.grid) return null;
      const [rows, columns] = sequence.grid;
      return amount(
        `The picture has ${rows} rows and ${columns} columns of patches. How many tokens are patches?`,
        rows * columns,
        `${rows} × ${columns} = ${rows * columns}${sequence.before ? `, after ${sequence.before} other token${sequence.before === 1 ? "" : "s"} such as the class token` : ""}.`,
        0,
      );
    },
  },
  embedding: {
    title: "Each token has a vector",
    at: "vectors",
    text: (run) => {
      const stack = stackOf(run);
      if (!stack?.input.length) return "";
      const { name, n } = tokenOf(run, stack.sequence),
        tensor = run.open(stack.input[0].tensor),
        D = tensor.shape[1],
        row = Math.min(n, tensor.shape[0] - 1);
      const first = Array.from(tensor.data.subarray(row * D, row * D + 3), (value) =>
        figures(value, 3, doubt(tensor, row)),
      );
      return `The vector of ${name} begins with ${first.join(", ")}, … These numbers are learned: tokens that are used alike get similar vectors.`;
    },
    question: (run) => {
      const stack = stackOf(run);
      if (!stack?.input.length) return null;
      const D = run.open(stack.input[0].tensor).shape[1];
      return amount(
        "How many numbers has each vector? (The table behind the figure has a row for each.)",
        D,
        `Every token is a vector of ${D} numbers, in every layer.`,
        0,
      );
    },
  },
  neighbours: {
    title: "Similar tokens are near",
    at: "vectors",
    text: () =>
      "The cosine between two vectors says how nearly they point the same way: 1 is the same direction, 0 is at right angles.",
    question: (run) => {
      const found = Object.entries(run.payload.near).find(([name, { lists }]) => {
        const n = run.state.get(`at.${name}`);
        return (lists[n] ?? []).length > 1;
      });
      if (!found) return null;
      const [name, { lists }] = found,
        list = lists[run.state.get(`at.${name}`)],
        words = list.map(([word]) => word.trim() || "space");
      return choose(
        `Which token is nearest to ${tokenOf(run, name).name}?`,
        words[0],
        words.slice(1),
        `${quoted(words[0])} has the largest cosine, ${figures(list[0][1], 3)}.`,
      );
    },
  },
  position: {
    title: "Where it stands is added",
    at: "vectors",
    text: (run) => {
      const stack = stackOf(run),
        sum = sumOf(run);
      if (!sum || !stack) return "";
      return `Attention alone does not know the order of its tokens: permuted inputs give permuted outputs. So a code of the position is added to each vector. In dimension ${sum.d + 1} of ${tokenOf(run, stack.sequence).name} these are ${sum.printed[0]} (token) and ${sum.printed[1]} (position).`;
    },
    question: (run) => {
      const sum = sumOf(run);
      if (!sum) return null;
      const [a, b, together] = sum.printed;
      return amount(
        `What does the first block read in dimension ${sum.d + 1}?`,
        sum.together,
        `${a} + ${b} = ${together}.`,
        0.02,
        0.006,
      );
    },
  },
  "position inside": {
    title: "The position enters inside attention",
    at: "story",
    select: selecting("self"),
    text: () =>
      "Nothing is added to the vectors of this model. Its attention itself knows how far a key is from the query.",
    question: (run) => {
      const kind = run.attentions[run.state.get("attention")]?.entry.position?.kind,
        among = [
          "a penalty that grows with the distance is added to the score",
          "query and key are rotated by an angle that grows with their position",
          "a learned number for each distance is added to the score",
          "a learned vector for each distance is added to the key",
        ],
        right = kind && { alibi: 0, rotary: 1, t5: 2, shaw: 3 }[kind];
      if (right === undefined) return null;
      return choose(
        "How does the distance enter here?",
        among[right],
        among,
        `This attention uses ${kind === "rotary" ? "rotary embeddings" : kind === "t5" ? "the relative bias of T5" : kind === "alibi" ? "ALiBi" : "the relative positions of Shaw et al."}: ${among[right]}.`,
      );
    },
  },
  look: {
    title: "One token attends to the others",
    at: "attention/head",
    select: asking,
    text: (run) => {
      const { query, attention, head, allowed } = lookOf(run);
      return `Each row of this matrix is one query, each column one key. The selected row belongs to ${query}, in head ${head + 1} of ${attention.heads}: its ${allowed.length} weights say how much it takes from each token.`;
    },
    question: (run) => {
      const { query, best, name } = lookOf(run);
      if (best.length < 2) return null;
      return choose(
        `From which token does ${query} take most?`,
        name(best[0].j),
        best.slice(1).map(({ j }) => name(j)),
        `${name(best[0].j)} has the weight ${percent(best[0].weight, best[0].doubts.weight)}, the largest of the row.`,
      );
    },
  },
  cross: {
    title: "The decoder attends to the source",
    at: "attention/head",
    select: selecting("cross"),
    text: (run) => {
      const { query, attention } = lookOf(run);
      return `In cross-attention the queries come from what is written, keys and values from what was read: ${attention.T} rows and ${attention.S} columns. No token has to pass through one bottleneck vector; ${query} reaches every source token in one step.`;
    },
    question: (run) => {
      if (ofKind(run, "cross") < 0) return null;
      const { query, best, name } = lookOf(run);
      if (best.length < 2) return null;
      return choose(
        `Which source token does ${query} attend to most?`,
        name(best[0].j),
        best.slice(1).map(({ j }) => name(j)),
        `${name(best[0].j)}, with ${percent(best[0].weight, best[0].doubts.weight)}.`,
      );
    },
  },
  parallel: {
    title: "All at once",
    at: "attention/head",
    text: (run) => {
      const { attention } = lookOf(run);
      return `No weight of this head waits for another: ${attention.T} queries and ${attention.S} keys are multiplied as two matrices. A recurrent network would take ${attention.T} steps, one after the other.`;
    },
    question: (run) => {
      const { attention } = lookOf(run);
      return amount(
        "How many scores q·k are that, before the mask?",
        attention.T * attention.S,
        `${attention.T} × ${attention.S} = ${attention.T * attention.S}. Twice as long a text has four times as many.`,
        0,
      );
    },
  },
  query: {
    title: "A query meets a key",
    at: "story/product",
    select: asking,
    text: (run) => {
      const { query, key, story, j, attention } = lookOf(run);
      return `Query and key of ${query} and ${key} are vectors of ${attention.E} numbers. They are multiplied dimension by dimension and added up: q·k = ${figures(story.keys[j].dot, 4, story.keys[j].doubts.dot)}. A large product means that the key answers what the query asks for.`;
    },
    question: (run) => {
      const { attention, head, i, j, story } = lookOf(run);
      if (attention.entry.energy) return null;
      const { q, k } = attention.vectors(head, i, j),
        products = Array.from(q, (value, e) => value * k[e]),
        most = products.reduce((best, value, e) => (value > products[best] ? e : best), 0);
      return choose(
        "Which dimension adds most to this product?",
        `dimension ${most + 1}`,
        products.map((_, e) => `dimension ${((e + most + 1) % products.length) + 1}`),
        `Dimension ${most + 1} adds ${figures(products[most], 3)} of ${figures(story.keys[j].dot, 3, story.keys[j].doubts.dot)}.`,
      );
    },
  },
  scale: {
    title: "Divided by √d",
    at: "story/scores",
    text: (run) => {
      const { story, j } = lookOf(run);
      return `A sum of d products grows like √d, and a softmax of large scores has almost no gradient. So q·k = ${figures(story.keys[j].dot, 4, story.keys[j].doubts.dot)} is multiplied by 1/√d = ${figures(story.scale, 4)}.`;
    },
    question: (run) => {
      const { attention, story } = lookOf(run);
      if (attention.entry.energy || Math.abs(story.scale ** 2 * attention.E - 1) > 1e-4) return null;
      return amount(
        "Which d gives this scale?",
        attention.E,
        `d = ${attention.E}, the width of a query of this head: 1/√${attention.E} = ${figures(story.scale, 4)}.`,
        0.01,
      );
    },
  },
  mask: {
    title: "What may not be seen",
    at: "story/scores",
    select: (run) => {
      const masked = run.attentions.findIndex(
        ({ entry }) => entry.mask && entry.kind === "self" && entry.stack !== "encoder",
      );
      const middle = masked < 0 ? 0 : Math.floor((run.attentions[masked].T - 1) / 2);
      return masked < 0 ? {} : { attention: masked, key: -1, [`at.${run.attentions[masked].entry.queries}`]: middle };
    },
    text: (run) => {
      const { attention, query, i } = lookOf(run);
      return `A token may attend to ${attention.entry.mask_words}. All other scores become −∞ before the softmax, so that their weights are exactly 0. ${query} is token ${i + 1} of ${attention.T}.`;
    },
    question: (run) => {
      const { attention, allowed, query, story } = lookOf(run);
      if (!attention.entry.mask) return null;
      return amount(
        `To how many of ${story.keys.length} keys may ${query} attend?`,
        allowed.length,
        `${allowed.length}; the other ${story.keys.length - allowed.length} are masked.`,
        0,
      );
    },
  },
  softmax: {
    title: "Scores become weights",
    at: "story/scores",
    select: asking,
    text: (run) => {
      const { best, name } = lookOf(run);
      if (best.length < 2) return "";
      const [a, b] = best.map((key) => figures(key.score, 4, key.doubts.score));
      return `The softmax takes exp of each score and divides by their sum, so that the weights are positive and add up to 1. The two largest scores are ${a} for ${name(best[0].j)} and ${b} for ${name(best[1].j)}.`;
    },
    question: (run) => {
      const { best, name, attention } = lookOf(run);
      if (best.length < 2 || attention.entry.hard || !(best[1].weight > 0)) return null;
      const by = best[0].score - best[1].score,
        times = Math.exp(by);
      return amount(
        "How many times as large is the first weight as the second? (exp of the difference of the scores)",
        times,
        `exp(${figures(by, 4, best[0].doubts.score + best[1].doubts.score)}) = ${figures(times, 3)}: ${name(best[0].j)} gets ${percent(best[0].weight, best[0].doubts.weight)}.`,
        0.06,
      );
    },
  },
  values: {
    title: "The values are mixed",
    at: "story/values",
    select: asking,
    text: (run) => {
      const { story, query } = lookOf(run);
      return `What ${query} receives from this head is the sum of the values, each times its weight. In dimension 1 that is ${figures(story.out[0], 4, story.outDoubt)}.`;
    },
    question: (run) => {
      const { attention, head, i, best, name } = lookOf(run);
      if (best.length < 2) return null;
      const parts = best
        .map(({ j, weight }) => ({ j, part: weight * attention.vectors(head, i, j).v[0] }))
        .sort((a, b) => Math.abs(b.part) - Math.abs(a.part));
      return choose(
        "Which key adds most to dimension 1 of that sum, above or below zero?",
        name(parts[0].j),
        parts.slice(1).map(({ j }) => name(j)),
        `${name(parts[0].j)} adds ${figures(parts[0].part, 3)}: a large weight does little where the value is small.`,
      );
    },
  },
  heads: {
    title: "Several heads, several questions",
    at: "attention/rivals",
    select: asking,
    text: (run) => {
      const { attention, query, key } = lookOf(run);
      return `This attention has ${attention.heads} heads, each with projections of its own, so that a token can ask several questions at once. All of them see the same tokens; they differ in what ${query} takes from ${key}.`;
    },
    question: (run) => {
      const { attention, i, j, query, key } = lookOf(run);
      if (attention.heads < 2) return null;
      const weights = Array.from({ length: attention.heads }, (_, head) => ({
        head,
        weight: attention.weights(head, i)[j],
      })).sort((a, b) => b.weight - a.weight || a.head - b.head);
      return choose(
        `Which head of this attention gives ${key} the largest weight, asked by ${query}?`,
        `head ${weights[0].head + 1}`,
        weights.slice(1).map(({ head }) => `head ${head + 1}`),
        `Head ${weights[0].head + 1} gives it ${percent(weights[0].weight)}, the next one ${percent(weights[1].weight)}.`,
      );
    },
  },
  concat: {
    title: "The heads are joined",
    at: "stream",
    text: (run) => {
      const { attention, story } = lookOf(run);
      return `The results of the ${attention.heads} head${attention.heads === 1 ? "" : "s"}, ${story.out.length} numbers each, are written one after the other, and a matrix W_O mixes them into a vector of the width of the stream.`;
    },
    question: (run) => {
      const { attention, story } = lookOf(run),
        width = attention.heads * story.out.length;
      return amount(
        "How many numbers does W_O read for each token?",
        width,
        `${attention.heads} × ${story.out.length} = ${width}.`,
        0,
      );
    },
  },
  matters: {
    title: "The head that matters",
    at: "what-if/heads-off",
    select: ({ payload: { ablation } }) => (ablation ? ablation.heads[ablation.needed.head] : {}),
    text: (run) => {
      const found = neededHead(run);
      return found
        ? `A large weight is not yet an influence. So every head was switched off once, and the output scored again. Selected is the head that the output needs most: without it the log-probability of the output changes by ${figures(found.change, 3)} nats.`
        : "";
    },
    question: (run) => {
      const found = neededHead(run);
      if (!found) return null;
      const factor = Math.exp(found.change);
      return amount(
        "By which factor is the probability of the whole output multiplied? (exp of the change)",
        factor,
        `exp(${figures(found.change, 3)}) = ${figures(factor, 3)}.`,
        0.06,
        1e-3,
      );
    },
  },
  residual: {
    title: "Everything is added to a stream",
    at: "stream",
    text: (run) => {
      const stack = stackOf(run);
      return `A block does not replace a token's vector; it adds to it: x + f(x). A block that adds nothing passes its input on unchanged, which is why deep models can be trained. The figure shows how long the added vectors are for ${tokenOf(run, stack.sequence).name}.`;
    },
    question: (run) => {
      const stack = stackOf(run),
        layer = layerOf(run),
        added = Object.entries(stack?.layers[layer]?.added ?? {});
      if (added.length < 2) return null;
      const { n, name } = tokenOf(run, stack.sequence),
        sizes = added
          .map(([part, tensor]) => ({ part, size: run.open(tensor).data[n] }))
          .sort((a, b) => b.size - a.size);
      return choose(
        `Which part of block ${layer + 1} (${stack.label.toLowerCase()}) adds most to ${name}?`,
        sizes[0].part,
        sizes.map(({ part }) => part),
        `The ${sizes[0].part} adds a vector of length ${figures(sizes[0].size, 3)}, the ${sizes[1].part} one of ${figures(sizes[1].size, 3)}.`,
      );
    },
  },
  norm: {
    title: "The norm keeps it in bounds",
    at: "stream",
    text: (run) => {
      const found = normOf(run);
      return found
        ? `Sums grow from block to block, so each is normalised: minus its mean, divided by its standard deviation, then times a learned gain plus a learned shift. In block ${found.layer + 1} the sum begins with ${figures(found.x, 4)}; its mean is ${figures(found.mean, 4)}, its standard deviation ${figures(found.root, 4)}.`
        : "";
    },
    question: (run) => {
      const found = normOf(run);
      if (!found) return null;
      const value = (found.x - found.mean) / found.root;
      return amount(
        "What does the first number become, before gain and shift?",
        value,
        `(${figures(found.x, 4)} − ${figures(found.mean, 4)}) / ${figures(found.root, 4)} = ${figures(value, 3)}.`,
        0.02,
        0.006,
      );
    },
  },
  network: {
    title: "Then each token by itself",
    at: "stream",
    text: () =>
      "Attention is linear in its values; what makes a transformer more than a mixture is the network behind it: two matrices with a nonlinearity between them, applied to the vector of each token alone.",
    question: ({ payload }) => {
      const networks = payload.map
        .flatMap(({ layers }) => layers.flatMap(({ parts }) => parts))
        .filter(({ kind }) => kind === "feedforward");
      if (!networks.length) return null;
      return choose(
        "Another token changes, but this token's vector at the network's input stays. What happens to the network's output for this token?",
        "it stays the same",
        ["it changes", "it becomes 0"],
        "The network sees one vector at a time. Only attention lets tokens exchange anything.",
      );
    },
  },
  lens: {
    title: "The prediction forms block by block",
    at: "stream/lens",
    text: (run) => {
      const found = outputAt(run);
      return found
        ? `The last norm and the output layer can read the stream after any block. At this place the whole model answers ${quoted(found.list[0].word)}.`
        : "";
    },
    question: (run) => {
      const { lens, output } = run.payload;
      if (!lens || !output || lens.layers.length < 2) return null;
      const place = Math.min(run.place(), lens.ids[0].length - 1),
        first = lens.ids.findIndex((places) => places[place][0] === output.ids[place][0]);
      if (first < 0) return null;
      return choose(
        "After which block is that answer the likeliest for the first time?",
        lens.layers[first],
        lens.layers,
        `After ${lens.layers[first]}; ${first ? `before, it was ${quoted((lens.words[lens.ids[first - 1][place][0]] ?? "").trim())}` : "the blocks above only make it surer, or change it for a while"}.`,
      );
    },
  },
  logits: {
    title: "Logits become probabilities",
    at: "output/probabilities",
    select: () => ({ temperature: 1, top_k: 0, top_p: 1 }),
    text: (run) => {
      const found = outputAt(run);
      return found && found.list.length > 1
        ? `The output layer gives one number, a logit, for each of ${found.told.size.toLocaleString("en")} possibilities. The two largest here: ${found.list
            .slice(0, 2)
            .map(({ word, logit }) => `${quoted(word)} ${figures(logit, 4)}`)
            .join(", ")}.`
        : "";
    },
    question: (run) => {
      const found = outputAt(run);
      if (!found || found.list.length < 2) return null;
      const [a, b] = found.list,
        times = Math.exp(a.logit - b.logit);
      return amount(
        "How many times as likely is the first as the second?",
        times,
        `exp(${figures(a.logit - b.logit, 4)}) = ${figures(times, 3)}: ${percent(a.share)} and ${percent(b.share)}.`,
        0.06,
      );
    },
  },
  temperature: {
    title: "Temperature",
    at: "output/sampling",
    select: (run) => ({ temperature: run.payload.output?.whole ? 2 : 1, top_k: 0, top_p: 1 }),
    text: () =>
      "All logits are divided by the temperature before the softmax. It is 2 now: the shares move towards each other, and a draw surprises more often. Move the slider, also below 1.",
    question: (run) => {
      const found = outputAt(run);
      if (!found?.told.whole || found.place < found.told.whole.first || found.list.length < 2) return null;
      const [a, b] = found.list;
      return choose(
        `Can a temperature make ${quoted(b.word)} likelier than ${quoted(a.word)}?`,
        "no, at no temperature",
        ["yes, at a high one", "yes, at a low one"],
        `Dividing by a positive number keeps the order: ${figures(a.logit, 4)} stays above ${figures(b.logit, 4)}.`,
      );
    },
  },
  writing: {
    title: "One token after another",
    at: "output/probabilities",
    select: ({ payload: { output, sequences } }) =>
      output?.sequence && output.targets.length > 1
        ? { [`at.${output.sequence}`]: Math.min(1, sequences[output.sequence].tokens.length - 1) }
        : {},
    text: (run) => {
      const told = run.payload.output;
      return told?.sequence
        ? `The model writes one token at a time: each place gives probabilities for the next token, and what is written is read at the next place. In training it reads the reference instead of its own words, all places at once. Selected is ${tokenOf(run, told.sequence).name}.`
        : "";
    },
    question: (run) => {
      const told = run.payload.output,
        place = run.place();
      if (!told?.sequence || !["language", "translation", "caption"].includes(run.payload.kind)) return null;
      const word = (id: number | null | undefined) =>
          id === null || id === undefined ? "" : told.words[id]?.trim() || "space",
        right = word(told.targets[place]);
      if (!right) return null;
      return choose(
        "Which token came next at this place, and is read at the following one?",
        right,
        [...told.targets.map(word), ...told.ids[place].map(word)].filter(Boolean),
        `${quoted(right)}: the model gives it rank ${told.ranks[place]} here.`,
      );
    },
  },
  search: {
    title: "A search decides",
    at: "search",
    select: ({ payload: { trace } }) => (trace ? { alpha: trace.alpha } : {}),
    text: ({ payload: { trace } }) =>
      trace
        ? `A beam of ${trace.beam} keeps the ${trace.beam} best beginnings at each step: ${trace.nodes.length} candidates were scored, ${trace.nodes.filter(({ status }) => status === "pruned").length} of them pruned. Longer texts have lower probabilities, so finished ones are ranked by log-probability divided by a length penalty.`
        : "",
    question: ({ payload: { trace } }) => {
      if (!trace || trace.lines.length < 2) return null;
      const plain = ranked(trace, 0);
      return choose(
        "Which finished hypothesis is likeliest before any length penalty (α = 0)?",
        plain[0].text || "(nothing)",
        plain.slice(1).map(({ text }) => text || "(nothing)"),
        `Its log-probability is ${figures(plain[0].log_probability, 4)}. Move the slider of the penalty to 0 and see.`,
      );
    },
  },
};

/** The parts of the first block's input in the dimension where position and token both count. */
function sumOf(run: TourRun) {
  const stack = stackOf(run),
    named = (label: string) => stack?.input.find((each) => each.label === label)?.tensor,
    [token, position, together] = [named("embedding") ?? named("patches"), named("position"), named("together")].map(
      (name) => run.open(name),
    );
  if (!token || !position || !together) return null;
  const D = together.shape[1],
    n = Math.min(run.state.get(`at.${stack.sequence}`), together.shape[0] - 1),
    at = (d: number) => Math.min(Math.abs(token.data[n * D + d]), Math.abs(position.data[n * D + d]));
  let best = 0;
  for (let d = 1; d < D; d++) if (at(d) > at(best)) best = d;
  const printed = [token, position, together].map((tensor) => figures(tensor.data[n * D + best], 3, doubt(tensor, n)));
  return { d: best, together: together.data[n * D + best], printed };
}

/** The head that the output needs most, and what it loses without it. */
function neededHead({ payload: { ablation }, open }: TourRun) {
  if (!ablation) return null;
  const { shape, data } = open(ablation.changes),
    row = ablation.needed.head * shape[1];
  return { change: Array.from(data.subarray(row, row + shape[1])).reduce((sum, value) => sum + value, 0) };
}

/** The first layer norm of the selected block, for the selected token: of its sum, the first number. */
function normOf(run: TourRun) {
  const stack = stackOf(run),
    layer = layerOf(run),
    steps = stack?.layers[layer]?.steps;
  if (!steps) return null;
  const { n } = tokenOf(run, stack.sequence),
    found = chainOf(steps, n, run.open).find(({ normed }) => normed),
    kind = steps.find(({ norm }) => norm)?.norm?.kind;
  if (!found?.normed || kind !== "layer") return null;
  return { layer, x: found.sum[0], mean: found.normed.mean, root: found.normed.root };
}

const stops = (...names: [string, string][]) => names.map(([name, slide]) => ({ name, slide }));

export const TOURS: Tour[] = [
  {
    id: "000",
    title: "From memory to the transformer",
    stops: stops(
      ["model", "slide 29"],
      ["tokens", "slide 33"],
      ["patches", "slide 33"],
      ["embedding", "slide 33"],
      ["look", "slide 29"],
      ["query", "slide 39"],
      ["softmax", "slide 41"],
      ["values", "slide 44"],
      ["residual", "slide 21"],
      ["norm", "slide 25"],
      ["network", "slide 13"],
      ["position", "slide 45"],
      ["position inside", "slide 45"],
    ),
  },
  {
    id: "001",
    title: "Order, and what the model says",
    stops: stops(
      ["tokens", "slide 55"],
      ["patches", "slide 60"],
      ["embedding", "slide 50"],
      ["neighbours", "slide 55"],
      ["position", "slide 48"],
      ["position inside", "slide 47"],
      ["mask", "slide 51"],
      ["look", "slide 51"],
      ["matters", "slide 51"],
      ["residual", "slide 51"],
      ["lens", "slide 51"],
      ["logits", "slide 57"],
      ["temperature", "slide 58"],
    ),
  },
  {
    id: "002",
    title: "From translation to attention",
    stops: stops(
      ["writing", "p. 6"],
      ["embedding", "p. 7"],
      ["cross", "p. 16"],
      ["query", "p. 17"],
      ["softmax", "p. 18"],
      ["values", "p. 19"],
      ["parallel", "p. 27"],
      ["position", "p. 31"],
      ["position inside", "p. 31"],
      ["heads", "p. 36"],
      ["network", "p. 42"],
      ["mask", "p. 43"],
      ["norm", "p. 47"],
      ["search", "p. 20"],
    ),
  },
  {
    id: "003",
    title: "Every number of one head",
    stops: stops(
      ["tokens", "line 34"],
      ["patches", "line 73"],
      ["embedding", "line 41"],
      ["position", "line 221"],
      ["position inside", "line 319"],
      ["look", "line 52"],
      ["query", "line 82"],
      ["scale", "line 58"],
      ["softmax", "line 58"],
      ["values", "line 71"],
      ["concat", "line 210"],
      ["norm", "line 263"],
      ["network", "line 282"],
    ),
  },
  {
    id: "004",
    title: "Transformers for language",
    stops: stops(
      ["look", "p. 5"],
      ["query", "p. 12"],
      ["scale", "p. 13"],
      ["softmax", "p. 16"],
      ["parallel", "p. 19"],
      ["heads", "p. 31"],
      ["concat", "p. 32"],
      ["residual", "p. 36"],
      ["cross", "p. 40"],
      ["mask", "p. 48"],
      ["writing", "p. 49"],
      ["matters", "p. 9"],
      ["temperature", "p. 55"],
      ["patches", "p. 59"],
    ),
  },
];

const MOST = 12,
  FEWEST = 4;

/** Whether a run has what a stop shows, whatever is selected now. */
function reaches(run: TourRun, stop: Stop): boolean {
  if (/^(attention|story)/.test(stop.at) && !run.attentions.length) return false;
  const chosen = stop.select?.(run) ?? {},
    get = <K extends Key>(key: K) => (chosen[key] ?? run.state.get(key)) as Values[K];
  return stop.question(withSelection(run, { get })) !== null;
}

/** The run with another selection, which is only asked, not shown. */
function withSelection(run: TourRun, state: TourRun["state"]): TourRun {
  const { payload, attentions, open } = run;
  return {
    payload,
    attentions,
    open,
    state,
    namesOf: (name, count, writing) => run.namesOf(name, count, writing),
    place: () => {
      const { output } = payload;
      return output?.sequence ? Math.min(state.get(`at.${output.sequence}`), output.ids.length - 1) : 0;
    },
    look: () => {
      const attention = attentions[state.get("attention")],
        { queries, keys } = attention.entry,
        head = Math.min(state.get("head"), attention.heads - 1),
        i = Math.min(state.get(`at.${queries}`), attention.T - 1),
        story = attention.story(head, i),
        j = story.keys.reduce((best, key) => (key.weight > best.weight ? key : best)).j;
      return {
        attention,
        head,
        i,
        j,
        story,
        queries: run.namesOf(queries, attention.T),
        keys: run.namesOf(keys, attention.S),
      };
    },
  };
}

/** The tours that a run can give, each with the stops that it has something for. */
export function toursOf(run: TourRun): (Tour & { stops: { name: string; slide: string }[] })[] {
  const has = new Map(Object.entries(STOPS).map(([name, stop]) => [name, reaches(run, stop)]));
  return TOURS.map((tour) => ({
    ...tour,
    stops: tour.stops.filter(({ name }) => has.get(name)).slice(0, MOST),
  })).filter((tour) => tour.stops.length >= FEWEST);
}
