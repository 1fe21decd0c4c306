// Any figure as a file: what stands on its stage is redrawn as one SVG; a PNG is that SVG, twice as fine.

const SPACE = 16;
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

function drawText(out, text, place) {
  if (!text.nodeValue.trim()) return;
  const range = document.createRange(),
    style = getComputedStyle(text.parentElement);
  range.selectNodeContents(text);
  const box = range.getBoundingClientRect();
  if (!box.width) return;
  out.append(
    node(
      "text",
      {
        x: box.left - place.left + SPACE,
        y: box.top - place.top + SPACE + box.height * 0.78,
        fill: style.color,
        "font-family": style.fontFamily,
        "font-size": style.fontSize,
        "font-weight": style.fontWeight,
      },
      text.nodeValue,
    ),
  );
}

function drawElement(out, each, place) {
  const style = getComputedStyle(each),
    box = each.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || !box.width || !box.height) return;
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
    return;
  }
  if (each instanceof SVGElement) {
    const copy = copied(each);
    for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
    out.append(copy);
    return;
  }
  if (!clear(style.backgroundColor))
    out.append(node("rect", { ...size, fill: style.backgroundColor, rx: parseFloat(style.borderRadius) || 0 }));
  for (const child of each.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) drawText(out, child, place);
    else if (child.nodeType === Node.ELEMENT_NODE) drawElement(out, child, place);
  }
}

function picture(stage, title) {
  const place = stage.getBoundingClientRect(),
    width = Math.ceil(stage.scrollWidth + 2 * SPACE),
    height = Math.ceil(stage.scrollHeight + 2 * SPACE);
  const out = node("svg", { xmlns: NAMESPACE, viewBox: `0 0 ${width} ${height}`, width, height });
  out.append(node("title", {}, title));
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--ground").trim();
  out.append(node("rect", { width, height, fill: ground }));
  for (const child of stage.children) drawElement(out, child, place);
  return { text: new XMLSerializer().serializeToString(out), width, height };
}

export async function asSvg(stage, title) {
  return new Blob([picture(stage, title).text], { type: "image/svg+xml" });
}

export async function asPng(stage, title) {
  const { text, width, height } = picture(stage, title),
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
