// What the shades mean.

import { svg } from "./dom.ts";
import { figures, percent } from "./core/numbers.ts";
import { hex, shareColour, signedColour, type Colour } from "./core/colour.ts";

function legend(shades: [string, Colour][], label: string): SVGElement {
  const wide = Math.max(44, 12 + 8 * Math.max(...shades.map(([text]) => text.length)));
  return svg(
    "svg",
    { class: "legend", width: shades.length * wide, height: 30, role: "img", "aria-label": label },
    shades.map(([text, colour], n) => [
      svg("rect", { x: n * wide, y: 2, width: wide, height: 8, fill: hex(colour) }),
      svg("text", { x: n * wide + wide / 2, y: 24, "text-anchor": "middle" }, text),
    ]),
  );
}

/** The legend of shares. */
export function shareLegend(): SVGElement {
  return legend(
    [0, 0.01, 0.1, 0.25, 0.5, 1].map((share) => [percent(share).replace(".0%", "%"), shareColour(share)]),
    "Shades from 0 to 1; shade grows with the root of the share",
  );
}

/** The legend of numbers from -most to most. */
export function signedLegend(most: number): SVGElement {
  return legend(
    [-1, -0.5, 0, 0.5, 1].map((share) => [share ? figures(share * most, 2) : "0", signedColour(share, 1)]),
    `Colours from ${figures(-most, 2)}, orange, to ${figures(most, 2)}, blue`,
  );
}
