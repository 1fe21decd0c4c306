// Joins web/src into one script for the package: d3, then each module as a function of its own, those it needs before it.
// Needs nothing but node. `npm run d3` makes vendor/d3.js anew from the packages of package.json.

import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] || join(here, "../src/headway/inspection/page/bundle.js");
const IMPORT = /^import\s+\{([^}]*)\}\s+from\s+"(\.[^"]+)";\n/gm;
const EXPORT = /^export\s+(?:async\s+)?(?:function|class|const)\s+([A-Za-z_$][\w$]*)/gm;

const names = (text) =>
  text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
const done = new Map(); // a module's path, and what it gives
const parts = [];

function add(path) {
  if (done.has(path)) return;
  const text = readFileSync(path, "utf8"),
    given = [...text.matchAll(EXPORT)].map(([, name]) => name);
  done.set(path, given);
  for (const [, wanted, from] of text.matchAll(IMPORT)) {
    const home = resolve(dirname(path), from);
    add(home);
    for (const name of names(wanted))
      if (!done.get(home).includes(name)) throw new Error(`${path}: ${from} has no ${name}`);
  }
  const body = text
    .replace(IMPORT, (_, wanted, from) => `const { ${names(wanted).join(", ")} } = ${called(from)};\n`)
    .replace(/^export\s+/gm, "");
  parts.push(`const ${called(path)} = (() => {\n${body.trim()}\nreturn { ${given.join(", ")} };\n})();\n`);
}

function called(path) {
  return `in_${basename(path, ".js")}`;
}

add(join(here, "src/main.js"));
const d3 = readFileSync(join(here, "vendor/d3.js"), "utf8").trim();
const bundle = `${d3}\n(() => {\n"use strict";\n\n${parts.join("\n")}\n})();\n`;
if (/<\/script|<!--/i.test(bundle)) throw new Error("the script would end its own element");
writeFileSync(target, bundle);
