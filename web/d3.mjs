// Makes vendor/d3.js: the few functions of d3 the page uses, with the licence of each package they come from.

import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const made = await build({
  stdin: {
    contents: `
      export { select, pointer } from "d3-selection";
      export { zoom, zoomIdentity } from "d3-zoom";
      export { line, linkHorizontal } from "d3-shape";
      export { interpolateRgbBasis } from "d3-interpolate";
      export { rgb } from "d3-color";
    `,
    resolveDir: ".",
  },
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "d3",
  target: "es2020",
  write: false,
  metafile: true,
  charset: "ascii",
});
const packages = [
  ...new Set(
    Object.keys(made.metafile.inputs)
      .map((path) => path.match(/node_modules\/([^/]+)\//)?.[1])
      .filter(Boolean),
  ),
].sort();
const about = packages.map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return { name: `${name} ${version}`, licence: readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim() };
});
const licences = [...new Set(about.map((each) => each.licence))].map(
  (licence) =>
    `${about
      .filter((each) => each.licence === licence)
      .map((each) => each.name)
      .join(", ")}\n\n${licence}`,
);
const told = licences.join("\n\n---\n\n").replace(/\*\//g, "* /");
writeFileSync("vendor/d3.js", `/*! d3, the parts that the page uses.\n\n${told}\n*/\n${made.outputFiles[0].text}`);
writeFileSync("vendor/LICENSE-d3.txt", `${licences.join("\n\n---\n\n")}\n`);
