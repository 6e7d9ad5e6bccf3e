/**
 * Runs NVIDIA's black-box tests (triton-inference-server/server, qa/L0_*) from their original files against this server:
 *   node --import tsx tools/upstream-qa/main.ts CHECKOUT [--suites=L0_infer,L0_http] [--sources=DIR] [--libraries=DIR] [--work=DIR] [--timeout-seconds=N] [--server=FILE]
 *   node --import tsx tools/upstream-qa/main.ts --page
 * CHECKOUT is a clone of that repository. DIR of --sources holds clones of its siblings `client` and `python_backend`: suites that
 * run the example clients or models need them. DIR of --libraries holds `libtriton_<name>.so` of the test backends, built from their
 * sources; without it, this server's own backends of these names answer. Results go to results.jsonl beside this file, one line a case; those of suites that
 * were not run again stay. FILE of --server is the program to test; default: the one of this checkout. `--page` writes docs/upstream-tests.md from them. Needs Linux, Python 3, unshare and a package index.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { qaPage, withQaPage } from "./page.ts";
import { buildQaModels } from "./qa-models.ts";
import { buildQaTree } from "./qa-tree.ts";
import { mergeResults, parseResults, printResults } from "./results.ts";
import { runSuite } from "./run-suite.ts";
import { excludedReason, SUITES } from "./suites.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const RESULTS = join(HERE, "results.jsonl");
const PAGE = join(HERE, "..", "..", "docs", "upstream-tests.md");
const DEFAULT_TIMEOUT_SECONDS = 1200;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    suites: { type: "string" },
    sources: { type: "string" },
    libraries: { type: "string" },
    work: { type: "string", default: join(tmpdir(), "nereid-upstream-qa") },
    "timeout-seconds": { type: "string", default: String(DEFAULT_TIMEOUT_SECONDS) },
    server: { type: "string", default: fileURLToPath(new URL("../../server/bin/tritonserver.cjs", import.meta.url)) },
    page: { type: "boolean", default: false },
  },
});
const [checkout] = positionals;
if (checkout !== undefined) await runSuites(resolve(checkout));
else if (!values.page) throw new Error("name a checkout of triton-inference-server/server, or --page");
if (values.page) {
  await writeFile(PAGE, withQaPage(await readFile(PAGE, "utf8"), qaPage(parseResults(await storedResults()))));
}

async function runSuites(source: string): Promise<void> {
  const timeoutMs = 1000 * Number(values["timeout-seconds"]);
  if (!Number.isFinite(timeoutMs) || timeoutMs <= 0) {
    throw new Error(`--timeout-seconds: expected a number above 0, got '${values["timeout-seconds"]}'`);
  }
  const chosen = values.suites?.split(",") ?? Object.keys(SUITES);
  for (const suite of chosen) {
    if (!existsSync(join(source, "qa", suite, "test.sh"))) throw new Error(`${source}/qa has no ${suite}/test.sh`);
  }
  const work = resolve(values.work);
  await mkdir(work, { recursive: true });
  const { python, models } = await buildQaModels(source, work);
  const tree = await buildQaTree({
    source,
    work,
    siblings: values.sources,
    libraries: values.libraries,
    server: resolve(values.server),
  });
  for (const suite of chosen) {
    const reason = excludedReason(suite);
    if (reason !== undefined) {
      process.stdout.write(`${suite}: not run: ${reason}\n`);
      continue;
    }
    const results = await runSuite({ suite, work, tree, models, python, timeoutMs });
    const all = mergeResults(parseResults(await storedResults()), suite, results);
    await writeFile(RESULTS, printResults(all));
    const passed = results.filter(({ outcome }) => outcome === "passed").length;
    process.stdout.write(`${suite}: ${passed} of ${results.length} passed\n`);
  }
}

async function storedResults(): Promise<string> {
  return existsSync(RESULTS) ? await readFile(RESULTS, "utf8") : "";
}
