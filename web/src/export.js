// Any figure as a file: its title, sentences and stage are redrawn as one SVG; a PNG is that SVG, twice as fine.

const SPACE = 16;
const LEFT_OUT = ".tools, .behind, .tabs, .control button, .control input"; // what one works the page with
const STYLED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "fill-opacity",
  "stroke-opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
  "direction",
];
const NAMESPACE = "http://www.w3.org/2000/svg";

function node(tag, attributes, text) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function clear(colour) {
  return colour === "transparent" || /rgba?\([^)]*,\s*0\)$/.test(colour) || /\/ 0\)$/.test(colour);
}

function copied(original) {
  const copy = original.cloneNode(true),
    from = [original, ...original.querySelectorAll("*")],
    to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((each, n) => {
    const style = getComputedStyle(each);
    for (const key of STYLED) to[n].setAttribute(key, style.getPropertyValue(key));
    to[n].removeAttribute("class");
    to[n].removeAttribute("style");
  });
  return copy;
}

/** The lines of a text as it is laid out: [text, box] of each. */
function linesOf(text) {
  const range = document.createRange(),
    lines = [];
  for (const { 0: word, index } of text.nodeValue.matchAll(/\S+\s*/g)) {
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    const box = range.getBoundingClientRect(),
      last = lines[lines.length - 1];
    if (!box.width) continue;
    if (last && Math.abs(last.top - box.top) < box.height / 2) last.text += word;
    else lines.push({ text: word, left: box.left, top: box.top, height: box.height, right: box.right });
    lines[lines.length - 1].right = box.right;
  }
  return lines;
}

function drawText(out, text, place) {
  const style = getComputedStyle(text.parentElement);
  for (const line of linesOf(text)) {
    out.append(
      node(
        "text",
        {
          x: line.left - place.left + SPACE,
          y: line.top - place.top + SPACE + line.height * 0.78,
          fill: style.color,
          "font-family": style.fontFamily,
          "font-size": style.fontSize,
          "font-weight": style.fontWeight,
          direction: style.direction,
        },
        line.text.trimEnd(),
      ),
    );
    place.reach(line.right, line.top + line.height);
  }
}

function drawElement(out, each, place) {
  const style = getComputedStyle(each),
    box = each.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || !box.width || !box.height) return;
  if (each.matches(LEFT_OUT)) return;
  const x = box.left - place.left + SPACE,
    y = box.top - place.top + SPACE,
    size = { x, y, width: box.width, height: box.height };
  if (each instanceof HTMLCanvasElement) {
    out.append(
      node("image", {
        ...size,
        href: each.toDataURL("image/png"),
        "image-rendering": "pixelated",
        preserveAspectRatio: "none",
      }),
    );
    place.reach(box.right, box.bottom);
    return;
  }
  if (each instanceof SVGElement) {
    const copy = copied(each);
    for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
    out.append(copy);
    place.reach(box.right, box.bottom);
    return;
  }
  if (!clear(style.backgroundColor)) {
    out.append(node("rect", { ...size, fill: style.backgroundColor, rx: parseFloat(style.borderRadius) || 0 }));
    place.reach(box.right, box.bottom);
  }
  for (const child of each.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) drawText(out, child, place);
    else if (child.nodeType === Node.ELEMENT_NODE) drawElement(out, child, place);
  }
}

/** Where a figure begins, and how far what was drawn of it reaches: further than its box, where it scrolls. */
function placeOf(root) {
  const { left, top } = root.querySelector(".head").getBoundingClientRect();
  const place = { left, top, width: 0, height: 0 };
  place.reach = (right, bottom) => {
    place.width = Math.max(place.width, right - left);
    place.height = Math.max(place.height, bottom - top);
  };
  return place;
}

/** Do something while the figure is laid out whole: nothing scrolled, nothing cut off. */
function whole(root, act) {
  const scrolled = [root, ...root.querySelectorAll("*")].filter((each) => each.scrollLeft || each.scrollTop),
    before = scrolled.map((each) => [each, each.scrollLeft, each.scrollTop]);
  for (const each of scrolled) each.scrollTo({ left: 0, top: 0, behavior: "instant" });
  root.classList.add("whole");
  try {
    return act();
  } finally {
    root.classList.remove("whole");
    for (const [each, left, top] of before) each.scrollTo({ left, top, behavior: "instant" });
  }
}

/** The figure as one SVG: its title, its sentences, what it shows, and its legend. */
function picture(root, title) {
  const parts = [],
    place = whole(root, () => {
      const found = placeOf(root),
        into = { append: (part) => parts.push(part) };
      for (const child of root.children) drawElement(into, child, found);
      return found;
    });
  const width = Math.ceil(place.width + 2 * SPACE),
    height = Math.ceil(place.height + 2 * SPACE);
  const out = node("svg", { xmlns: NAMESPACE, viewBox: `0 0 ${width} ${height}`, width, height });
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--ground").trim();
  out.append(node("title", {}, title), node("rect", { width, height, fill: ground }), ...parts);
  return { text: new XMLSerializer().serializeToString(out), width, height };
}

export async function asSvg(root, title) {
  return new Blob([picture(root, title).text], { type: "image/svg+xml" });
}

export async function asPng(root, title) {
  const { text, width, height } = picture(root, title),
    image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas"),
    fine = Math.min(2, 8000 / Math.max(width, height));
  canvas.width = width * fine;
  canvas.height = height * fine;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function saved(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
