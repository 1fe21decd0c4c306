// What the shades mean.

import { svg } from "./dom.ts";
import { percent } from "./core/numbers.ts";
import { hex, shareColour } from "./core/colour.ts";

/** The legend of shares. */
export function shareLegend() {
  const ticks = [0, 0.01, 0.1, 0.25, 0.5, 1],
    wide = 44;
  return svg(
    "svg",
    {
      class: "legend",
      width: ticks.length * wide,
      height: 30,
      role: "img",
      "aria-label": "Shades from weight 0 to weight 1; shade grows with the root of the weight",
    },
    ticks.map((share, n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: hex(shareColour(share)) }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, percent(share).replace(".0%", "%")),
    ]),
  );
}
