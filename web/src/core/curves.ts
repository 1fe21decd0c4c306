// Paths of SVG: a line through points, and a link from one to another.

export interface Point {
  x: number;
  y: number;
}

const short = (value: number): string => String(Math.round(value * 1000) / 1000);

export function linePath(points: Point[]): string {
  return points.map(({ x, y }, n) => `${n ? "L" : "M"}${short(x)},${short(y)}`).join("");
}

/** A curve that leaves and arrives level. */
export function linkPath(from: Point, to: Point): string {
  const middle = short((from.x + to.x) / 2);
  return `M${short(from.x)},${short(from.y)}C${middle},${short(from.y)} ${middle},${short(to.y)} ${short(to.x)},${short(to.y)}`;
}
