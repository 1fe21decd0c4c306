// Colours of numbers, in either theme: one hue for shares from 0 to 1, two for numbers of either sign.

const RAMPS = {
  light: {
    share: ["#f6f8fb", "#c4d8f2", "#6f9fd8", "#2c62ad", "#0d2c63"],
    minus: "#b3541e",
    plus: "#1f5fae",
    zero: "#f6f8fb",
  },
  dark: {
    share: ["#171b22", "#1f3a5c", "#33669f", "#6ea3de", "#e3efff"],
    minus: "#f0a35e",
    plus: "#7ab2f5",
    zero: "#171b22",
  },
};
const STEPS = 256;
const made = new Map();

export function theme() {
  return document.documentElement.dataset.theme === "dark" ? "dark" : "light";
}

function rampOf(kind) {
  const key = `${theme()} ${kind}`;
  if (!made.has(key)) {
    const { share, minus, plus, zero } = RAMPS[theme()];
    const below = d3.interpolateRgbBasis([minus, zero]),
      above = d3.interpolateRgbBasis([zero, plus]);
    const ramp = kind === "share" ? d3.interpolateRgbBasis(share) : (t) => (t < 0.5 ? below(2 * t) : above(2 * t - 1));
    made.set(
      key,
      Array.from({ length: STEPS }, (_, n) => d3.rgb(ramp(n / (STEPS - 1)))),
    );
  }
  return made.get(key);
}

/** The ramp of shares as pixels, for n of 0 to 255: n is 255 times the root of the share. */
export function sharePixels() {
  const key = `${theme()} pixels`;
  if (!made.has(key))
    made.set(
      key,
      Uint32Array.from(rampOf("share"), ({ r, g, b }) => (255 << 24) | (b << 16) | (g << 8) | r),
    );
  return made.get(key);
}

function at(ramp, share) {
  return ramp[Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))))];
}

/** The colour of a share from 0 to 1; shade grows with its root, so that small ones show. */
export function shareColour(share) {
  return at(rampOf("share"), Math.sqrt(Math.max(share, 0)));
}

/** The colour of a number between -most and most. */
export function signedColour(value, most) {
  return at(rampOf("signed"), 0.5 + value / (2 * (most || 1)));
}

/** Ink that can be read on a colour. */
export function inkOn({ r, g, b }) {
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255 > 0.55 ? "#10151d" : "#ffffff";
}
