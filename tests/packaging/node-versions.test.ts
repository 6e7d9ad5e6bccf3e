/**
 * The built server under each release of Node.js that is supported, and the line of one that is not. The releases come from
 * npm's packages of Node.js, so none needs to be installed.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { before, test } from "node:test";
import { type NpmPackages, npmPackages } from "../npm-packages.ts";
import { longTestsReason } from "../support/long-tests.ts";
import { EXAMPLES } from "../support/model-repository.ts";
import { SERVER_BIN, type ServerProcess, startServerProcess } from "../support/server-process.ts";

const PLATFORM = `${process.platform}-${process.arch}`;
/** The oldest of `engines`, the oldest that is maintained, and the recommended one. */
const SUPPORTED = ["20.19.0", "22.18.0", "24.18.0"];
const TOO_OLD = ["18.20.8", "20.18.3"];
const END_OF_LIFE = /past its end of life; Node\.js 24 is recommended/g;
const SIMPLE = {
  inputs: [
    { name: "INPUT0", datatype: "INT32", shape: [1, 16], data: Array.from({ length: 16 }, (_, index) => index) },
    { name: "INPUT1", datatype: "INT32", shape: [1, 16], data: Array.from({ length: 16 }, () => 1) },
  ],
};
const TEXT = { text_input: "What is machine learning?", max_tokens: 8, bad_words: "", stop_words: "" };

const skip =
  longTestsReason ??
  (PLATFORM === "linux-x64" ? false : `npm's packages of Node.js are tried on linux-x64, not ${PLATFORM}`);
const options = { skip, timeout: 600_000 };
let packages: NpmPackages = { folder: undefined, reason: "not asked for" };

before(async () => {
  if (skip !== false) return;
  const names = [...SUPPORTED, ...TOO_OLD].map((version) => [`node-${version}`, `npm:node-${PLATFORM}@${version}`]);
  packages = await npmPackages("node-versions", Object.fromEntries(names));
});

function programOf(version: string): string {
  assert.ok(packages.folder !== undefined, packages.reason);
  return join(packages.folder, "node_modules", `node-${version}`, "bin", "node");
}

async function ask(server: ServerProcess, path: string, body: unknown): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`${server.baseUrl}/v2/models/${path}`, { method: "POST", body: JSON.stringify(body) });
  assert.equal(answer.status, 200, server.log());
  return (await answer.json()) as Readonly<Record<string, unknown>>;
}

for (const version of SUPPORTED) {
  test(
    `Node.js ${version} serves the examples, and says once whether it is past its end of life`,
    options,
    async () => {
      const server = await startServerProcess({ repositories: [EXAMPLES], command: [programOf(version), SERVER_BIN] });
      try {
        const { outputs } = await ask(server, "simple/infer", SIMPLE);
        assert.deepEqual((outputs as { readonly data: readonly number[] }[])[0]?.data.slice(0, 3), [1, 2, 3]);
        const { model_name, text_output } = await ask(server, "ensemble/generate", TEXT);
        assert.deepEqual([model_name, typeof text_output], ["ensemble", "string"]);
        await server.stop();
      } finally {
        await server.kill();
      }
      assert.equal([...server.log().matchAll(END_OF_LIFE)].length, version.startsWith("20.") ? 1 : 0, server.log());
    },
  );
}

for (const version of TOO_OLD) {
  test(`Node.js ${version} is refused with one line`, options, () => {
    const { status, stdout, stderr } = spawnSync(programOf(version), [SERVER_BIN, "--help"], { encoding: "utf8" });
    const line = `tritonserver: needs Node.js 20.19 or later, got ${version}; Node.js 24 is recommended\n`;
    assert.deepEqual([status, stdout, stderr], [1, "", line]);
  });
}
