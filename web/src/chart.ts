// Curves over steps: a line for each run, its name at the end, and a crosshair that reads all of them.

import { el, shortened, svg, swap } from "./dom.ts";
import { hideTip, tipAt } from "./tips.ts";
import { linePath } from "./core/curves.ts";
import { nearest, type Curve } from "./core/board.ts";
import { scaled, type Scale } from "./core/scale.ts";
import { figures } from "./core/numbers.ts";

export interface Line {
  name: string;
  curve: Curve;
  colour: number; // of `--run-0` to `--run-7`
  label?: string; // of assistive technology, if it is not the name
}

export interface ChartOptions {
  label: string;
  logX?: boolean;
  logY?: boolean;
  height?: number;
  mark?: number | null; // a step that is marked
  pick?: (step: number) => void; // a click on the chart
  legend?: boolean; // below the chart where there is no room for the names beside it
}

const LEFT = 58,
  TOP = 10,
  BOTTOM = 30;

export const COLOURS = 8;
const DASHES = ["", "7 3", "2 3"]; // of the first eight runs, the next, the others

export function strokeOf(colour: number): Record<string, string> {
  return { stroke: `var(--run-${colour % COLOURS})`, "stroke-dasharray": DASHES[Math.floor(colour / COLOURS) % 3] };
}

/** {node, draw}: `draw` takes the lines and how to draw them; the crosshair is the pointer's, or the arrow keys'. */
export function chart() {
  const holder = el("div", { class: "wide chart" });
  let at: number | null = null; // the step of the crosshair

  function draw(lines: Line[], options: ChartOptions): void {
    const drawn = lines.filter(({ curve }) => curve.length),
      width = Math.max(280, holder.clientWidth || 640);
    if (!drawn.length) {
      swap(holder, el("p", { class: "note" }, "No curve of this kind is recorded for the chosen runs."));
      return;
    }
    swap(holder, plotted(drawn, width, options), options.legend && !named(drawn, width) ? legendOf(drawn) : "");
  }

  function plotted(lines: Line[], width: number, options: ChartOptions): SVGElement {
    const height = options.height ?? 320,
      room = named(lines, width) ? 20 + 7.5 * Math.max(...lines.map(({ name }) => Math.min(20, name.length))) : 14,
      x = across(lines, width - room, options),
      y = upward(lines, height, options);
    const root = svg("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      tabindex: 0,
      "data-key": "chart",
      "aria-label": `${options.label}. ${lines.map((line) => `${line.name}: ${ends(line.curve)}`).join("; ")}. Arrow keys read it step by step.`,
    });
    for (const tick of y.ticks)
      root.append(
        svg("line", { class: "grid", x1: LEFT, x2: width - room, y1: y.at(tick), y2: y.at(tick) }),
        svg(
          "text",
          { class: "axis", x: LEFT - 8, y: y.at(tick), "text-anchor": "end", "dominant-baseline": "middle" },
          short(tick),
        ),
      );
    for (const tick of x.ticks)
      root.append(
        svg("text", { class: "axis", x: x.at(tick), y: height - 10, "text-anchor": "middle" }, short(tick, true)),
      );
    const mark = options.mark;
    if (mark !== null && mark !== undefined)
      root.append(svg("line", { class: "marked", x1: x.at(mark), x2: x.at(mark), y1: TOP, y2: height - BOTTOM }));
    for (const { curve, colour } of lines) {
      const points = curve.map(([step, value]) => ({ x: x.at(step), y: y.at(value) }));
      root.append(svg("path", { class: "run", d: linePath(points), ...strokeOf(colour) }));
      if (curve.length <= 40)
        for (const point of points)
          root.append(svg("circle", { cx: point.x, cy: point.y, r: 2.5, style: { fill: strokeOf(colour).stroke } }));
    }
    if (room > 20) root.append(...names(lines, width - room, y, height));
    const cross = svg("line", { class: "cross", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    root.append(cross);
    reads(root, cross, lines, x, width - room, options);
    return root;
  }

  function reads(
    root: SVGElement,
    cross: SVGElement,
    lines: Line[],
    x: Scale,
    right: number,
    { pick }: ChartOptions,
  ): void {
    const steps = [...new Set(lines.flatMap(({ curve }) => curve.map(([step]) => step)))].sort((a, b) => a - b);
    const show = (step: number, place: { x: number; y: number }) => {
      at = step;
      cross.setAttribute("x1", String(x.at(step)));
      cross.setAttribute("x2", String(x.at(step)));
      cross.setAttribute("visibility", "visible");
      tipAt(place.x, place.y, [`step ${step.toLocaleString("en")}`, ...lines.map((line) => read(line, step))]);
    };
    const hide = () => {
      cross.setAttribute("visibility", "hidden");
      hideTip();
    };
    const stepAt = (event: PointerEvent | MouseEvent) => {
      const wanted = x.value(event.clientX - root.getBoundingClientRect().left);
      return steps.reduce((best, step) => (Math.abs(step - wanted) < Math.abs(best - wanted) ? step : best));
    };
    root.addEventListener("pointermove", (event) => show(stepAt(event), { x: event.clientX, y: event.clientY }));
    root.addEventListener("pointerleave", hide);
    root.addEventListener("blur", hide);
    if (pick) root.addEventListener("click", (event) => pick(stepAt(event)));
    root.addEventListener("keydown", (event) => {
      const now = at === null ? -1 : steps.indexOf(at),
        to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: steps.length - 1 }[event.key];
      if ((event.key === "Enter" || event.key === " ") && pick && at !== null) {
        event.preventDefault();
        pick(at);
      }
      if (to === undefined) return;
      event.preventDefault();
      const step = steps[Math.max(0, Math.min(steps.length - 1, to))],
        box = root.getBoundingClientRect();
      show(step, { x: box.left + Math.min(x.at(step), right), y: box.top + TOP });
    });
  }

  return { node: holder, draw };
}

function named(lines: Line[], width: number): boolean {
  return width >= 420 && lines.length > 1;
}

function legendOf(lines: Line[]): HTMLElement {
  return el(
    "p",
    { class: "names" },
    lines.map(({ name, colour }) =>
      el(
        "span",
        {},
        el("span", { class: "swatch", style: { background: strokeOf(colour).stroke } }),
        el("bdi", {}, name),
      ),
    ),
  );
}

function read({ name, curve }: Line, step: number): string {
  const found = nearest(curve, step);
  return found ? `${shortened(name, 24)}  ${figures(found[1], 4)}` : name;
}

function ends(curve: Curve): string {
  return `${figures(curve[0][1], 3)} to ${figures(curve[curve.length - 1][1], 3)}`;
}

function across(lines: Line[], right: number, { logX }: ChartOptions): Scale {
  const steps = lines.flatMap(({ curve }) => curve.map(([step]) => step)),
    low = logX ? Math.max(1, Math.min(...steps)) : 0,
    high = Math.max(...steps, 1);
  return scaled(low, Math.max(high, low + 1), LEFT, right, logX, right < 480 ? 3 : 6);
}

/** The values of a chart from below to above; of a loss that falls from a few large ones, without these first steps. */
function upward(lines: Line[], height: number, { logY }: ChartOptions): Scale {
  const values = lines.flatMap(({ curve }) => curve.map(([, value]) => value)).filter((value) => !logY || value > 0);
  let low = Math.min(...values),
    high = Math.max(...values);
  if (!(high > low)) [low, high] = [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1];
  else if (!logY)
    [low, high] = [low > 0 && low < 0.3 * high ? 0 : low - 0.04 * (high - low), high + 0.04 * (high - low)];
  return scaled(low, high, height - BOTTOM, TOP, logY, 5);
}

/** The names of the lines where they end, none over another. */
function names(lines: Line[], right: number, y: Scale, height: number): SVGElement[] {
  const wanted = lines
    .map((line) => ({ line, at: y.at(line.curve[line.curve.length - 1][1]) }))
    .sort((a, b) => a.at - b.at);
  for (let n = 1; n < wanted.length; n++) wanted[n].at = Math.max(wanted[n].at, wanted[n - 1].at + 16);
  const over = (wanted[wanted.length - 1]?.at ?? 0) - (height - BOTTOM);
  if (over > 0) for (let n = wanted.length - 1, most = height - BOTTOM; n >= 0; n--, most -= 16) wanted[n].at = Math.min(wanted[n].at, most); // prettier-ignore
  return wanted.map(({ line, at }) =>
    svg(
      "text",
      {
        class: "name",
        x: right + 10,
        y: at,
        "dominant-baseline": "middle",
        style: { fill: strokeOf(line.colour).stroke },
      },
      shortened(line.name, 20),
    ),
  );
}

function short(value: number, whole = false): string {
  if (whole && value >= 10000) return `${Number((value / 1000).toPrecision(3))}k`;
  return value !== 0 && Math.abs(value) < 1e-3 ? figures(value, 1) : String(value).replace("-", "−");
}

/** A line without axes, as tall as a row of text. */
export function sparkline(curve: Curve, colour: number): SVGElement {
  const width = 96,
    height = 24,
    root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", class: "spark" });
  if (curve.length > 1) {
    const values = curve.map(([, value]) => value),
      x = scaled(curve[0][0], curve[curve.length - 1][0], 2, width - 2),
      y = scaled(Math.min(...values), Math.max(...values), height - 3, 3);
    const points = curve.map(([step, value]) => ({ x: x.at(step), y: y.at(value) }));
    root.append(svg("path", { class: "run", d: linePath(points), ...strokeOf(colour) }));
  }
  return root;
}
