// Joins web/src into the script of the package: `node web/build.mjs`, or with another file to write to.
//
// The same sources and the same esbuild (the lock names it) give the same bytes on every machine.

import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] || join(here, "../src/headway/inspection/page/bundle.js");
const made = await build({
  entryPoints: [join(here, "src/main.ts")],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  write: false,
});
const script = made.outputFiles[0].text;
if (/<\/script|<!--/i.test(script)) throw new Error("the script would end its own element");
writeFileSync(target, script);
