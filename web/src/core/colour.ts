// Colours of numbers, in either theme: one hue for shares from 0 to 1, two for numbers of either sign.

export interface Colour {
  r: number;
  g: number;
  b: number;
}
export type Theme = "light" | "dark";

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
const DARK_INK: Colour = { r: 0, g: 0, b: 0 }, // with any lighter a middle shade would have less than 4.5 : 1 with both
  LIGHT_INK: Colour = { r: 255, g: 255, b: 255 };
const made = new Map<string, Colour[]>();
const pixelsMade = new Map<Theme, Uint32Array>();
let current: Theme = "light";

export function setTheme(theme: Theme): void {
  current = theme;
}

function parsed(text: string): Colour {
  const whole = parseInt(text.slice(1), 16);
  return { r: whole >> 16, g: (whole >> 8) & 255, b: whole & 255 };
}

export function hex({ r, g, b }: Colour): string {
  return `#${((r << 16) | (g << 8) | b).toString(16).padStart(6, "0")}`;
}

/** A uniform cubic B-spline through colours, at `t` of 0 to 1; its ends are the first and the last of them. */
export function spline(values: number[], t: number): number {
  const last = values.length - 1,
    n = Math.min(last - 1, Math.floor(Math.max(0, Math.min(1, t)) * last)),
    u = t * last - n,
    b = values[n],
    c = values[n + 1],
    a = n > 0 ? values[n - 1] : 2 * b - c,
    d = n < last - 1 ? values[n + 2] : 2 * c - b;
  return (
    ((1 - u) ** 3 * a + (3 * u ** 3 - 6 * u ** 2 + 4) * b + (-3 * u ** 3 + 3 * u ** 2 + 3 * u + 1) * c + u ** 3 * d) / 6
  );
}

function between(stops: string[], t: number): Colour {
  const colours = stops.map(parsed),
    channel = (name: keyof Colour) =>
      Math.max(
        0,
        Math.min(
          255,
          Math.round(
            spline(
              colours.map((colour) => colour[name]),
              t,
            ),
          ),
        ),
      );
  return { r: channel("r"), g: channel("g"), b: channel("b") };
}

function rampOf(kind: "share" | "signed"): Colour[] {
  const key = `${current} ${kind}`,
    found = made.get(key);
  if (found) return found;
  const { share, minus, plus, zero } = RAMPS[current];
  const ramp = Array.from({ length: STEPS }, (_, n) => {
    const t = n / (STEPS - 1);
    if (kind === "share") return between(share, t);
    return t < 0.5 ? between([minus, zero], 2 * t) : between([zero, plus], 2 * t - 1);
  });
  made.set(key, ramp);
  return ramp;
}

/** The ramp of shares as pixels, for n of 0 to 255: n is 255 times the root of the share. */
export function sharePixels(): Uint32Array {
  const found =
    pixelsMade.get(current) ??
    Uint32Array.from(rampOf("share"), ({ r, g, b }) => (255 << 24) | (b << 16) | (g << 8) | r);
  pixelsMade.set(current, found);
  return found;
}

function at(ramp: Colour[], share: number): Colour {
  return ramp[Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))))];
}

/** The colour of a share from 0 to 1; shade grows with its root, so that small ones show. */
export function shareColour(share: number): Colour {
  return at(rampOf("share"), Math.sqrt(Math.max(share, 0)));
}

/** The colour of a number between -most and most. */
export function signedColour(value: number, most: number): Colour {
  return at(rampOf("signed"), 0.5 + value / (2 * (most || 1)));
}

/** Ink that can be read on a colour: of the two, the one with more contrast (WCAG 2.2, relative luminance). */
export function inkOn(colour: Colour): string {
  return contrast(colour, DARK_INK) >= contrast(colour, LIGHT_INK) ? hex(DARK_INK) : hex(LIGHT_INK);
}

/** The contrast of two colours, 1 to 21. */
export function contrast(one: Colour, other: Colour): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance({ r, g, b }: Colour): number {
  const [R, G, B] = [r, g, b].map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * R + 0.7152 * G + 0.0722 * B;
}
