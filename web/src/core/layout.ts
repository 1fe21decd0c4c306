// Where things stand: the tokens of a beam tree (a column a step, close to where they come from, none on another), labels.

import type { TraceNode } from "./payload.ts";

const WEIGHT = { won: 1e9, ended: 10, kept: 10, pruned: 1 }; // who may stay level with its parent

/** Places at least 1 apart, in this order, as near to the wanted ones as can be. */
function apart(wanted: number[], weights: number[]): number[] {
  const pools: [number, number, number][] = [];
  wanted.forEach((place, n) => {
    pools.push([place - n, weights[n], 1]);
    while (pools.length > 1 && pools[pools.length - 2][0] > pools[pools.length - 1][0]) {
      const [[a, v, k], [b, w, m]] = pools.splice(-2);
      pools.push([(a * v + b * w) / (v + w), v + w, k + m]);
    }
  });
  const level = pools.flatMap(([mean, , members]) => Array<number>(members).fill(Math.max(mean, 0)));
  return level.map((mean, n) => mean + n);
}

/** A row for each node: in the order of their parents, level with them where there is room. */
export function placed(nodes: TraceNode[]): { y: number[]; steps: number } {
  const y = new Array<number>(nodes.length).fill(0),
    steps = Math.max(0, ...nodes.map((each) => each.step + 1));
  for (let step = 0; step < steps; step++) {
    const wanted = (n: number) => {
      const { parent } = nodes[n];
      return parent === null ? 0 : y[parent];
    };
    const column = nodes
      .flatMap((each, n) => (each.step === step ? [n] : []))
      .sort(
        (a, b) =>
          wanted(a) - wanted(b) ||
          Number(nodes[a].status !== "won") - Number(nodes[b].status !== "won") ||
          nodes[b].nats - nodes[a].nats,
      );
    apart(
      column.map(wanted),
      column.map((n) => WEIGHT[nodes[n].status]),
    ).forEach((row, n) => {
      y[column[n]] = row;
    });
  }
  return { y, steps };
}

/** Which of `count` labels to draw: every so many, and the chosen one with room around it. */
export function ticks(count: number, every: number, chosen: number): number[] {
  const found: number[] = [];
  for (let n = 0; n < count; n++)
    if (n === chosen || (n % every === 0 && !(Math.abs(n - chosen) < every))) found.push(n);
  return found;
}
