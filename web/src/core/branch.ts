// Which tokens stay when a text is written on, or branched at a place.

import type { Payload } from "./payload.ts";

/** The ids before the place where another token is to stand; without a place all of them, to write on. */
export function prefixOf({ writer, sequences, output }: Payload, place: number | null): number[] {
  if (!writer) return [];
  const { ids = [], writes } = sequences[writer.sequence],
    all = ids.slice(writer.begin);
  if (!writes) return place === null ? all : all.slice(0, place + 1 - writer.begin); // what follows the place changes
  if (place !== null) return all.slice(0, place); // the place writes a token, and that one changes
  const last = output?.targets[output.targets.length - 1];
  return last === null || last === undefined || writer.stops.includes(last) ? all : [...all, last];
}

/** The place of a text's last token, for a figure to show: where it stands, or where it was written. */
export function placeOfLast({ writer, sequences }: Payload, ids: number[]): number {
  if (!writer) return 0;
  return Math.max(0, ids.length - 1 + writer.begin - (sequences[writer.sequence].writes ? 1 : 0));
}
