// Where a token stands in the text that it was cut from.

/** The place [from, to) of token `n` in the text, by its pieces in their order; null where they are not those of the text. */
export function spanOf(text: string, pieces: string[], n: number): [number, number] | null {
  const low = text.toLowerCase();
  let from = 0;
  for (let m = 0; m <= n; m++) {
    const piece = bare(pieces[m]),
      found = piece ? low.indexOf(piece, from) : -1;
    if (found < 0 || /\S/.test(low.slice(from, found))) {
      if (m === n) return null;
      continue; // a special token, which is not in the text
    }
    if (m === n) return [found, found + piece.length];
    from = found + piece.length;
  }
  return null;
}

/** The text with another piece in place of token `n`; null where that cannot be said. */
export function replaced(text: string, pieces: string[], n: number, by: string): string | null {
  const span = spanOf(text, pieces, n);
  return span && text.slice(0, span[0]) + by + text.slice(span[1]);
}

/** A piece without its sign of a continued word, and without the space in front. */
function bare(piece: string): string {
  return (piece.length > 1 ? piece.replace(/^·/, "") : piece).trim().toLowerCase();
}
