// What part of a picture is seen: a point p of it is drawn at k·p + (x, y).

export interface View {
  x: number;
  y: number;
  k: number;
}
export interface Extent {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export const WHOLE: View = { x: 0, y: 0, k: 1 };
const LARGEST = 64;

/** The view with nothing of what lies outside the picture in it. */
export function within({ x, y, k }: View, { left, top, right, bottom }: Extent): View {
  const kept = (value: number, low: number, high: number) => Math.min(low * (1 - k), Math.max(high * (1 - k), value));
  return { x: kept(x, left, right), y: kept(y, top, bottom), k };
}

/** The view enlarged by a factor about the point (px, py) of the screen, which stays where it is. */
export function enlarged({ x, y, k }: View, factor: number, px: number, py: number, extent: Extent): View {
  const next = Math.max(1, Math.min(LARGEST, k * factor)),
    ratio = next / k;
  return within({ x: px - (px - x) * ratio, y: py - (py - y) * ratio, k: next }, extent);
}

export function moved({ x, y, k }: View, dx: number, dy: number, extent: Extent): View {
  return within({ x: x + dx, y: y + dy, k }, extent);
}
