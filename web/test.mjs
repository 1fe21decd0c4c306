// Runs the tests of web/src/core with node's own runner: `node web/test.mjs NUMBERS.json`.
//
// The numbers are what PyTorch computed: tests/inspection/page/test_core.py writes them and calls this.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
if (!process.argv[2])
  throw new Error("node web/test.mjs NUMBERS.json; pytest tests/inspection/page/test_core.py writes it");
const folder = mkdtempSync(join(tmpdir(), "headway-page-"));
try {
  const tests = readdirSync(join(here, "tests")).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: tests.map((name) => join(here, "tests", name)),
    bundle: true,
    format: "esm",
    platform: "node",
    outExtension: { ".js": ".mjs" },
    outdir: folder,
  });
  const { status } = spawnSync(process.execPath, ["--test", folder], {
    stdio: "inherit",
    env: { ...process.env, NUMBERS: resolve(process.argv[2]) },
  });
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
