/** Names of Ollama's library, from a registry to an answer: the example model as a GGUF file in a local registry. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "@nereid/server/cli/cli.test-support";
import { readTiny, toGguf, tokenizerFields } from "@nereid/server/formats/gguf/tiny-gguf.test-support";
import { FakeRegistry } from "../ollama/fake-registry.test-support.ts";

const TINY = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));
const QUESTION = ["Once upon a time", "--max_tokens=8", "--json"];

let root = "";
let registry: FakeRegistry;
let env: Record<string, string>;

before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-ollama-"));
  registry = await FakeRegistry.start();
  const model = toGguf(await readTiny(TINY), "llama", () => "bf16", await tokenizerFields(TINY));
  const params = JSON.stringify({ temperature: 0, stop: ["[INST]"], num_ctx: 512 });
  const layers = [
    { kind: "model", content: model },
    { kind: "template", content: "{{ .Prompt }}" },
    { kind: "params", content: params },
  ];
  registry.add("library/tiny:1b", layers);
  registry.add("library/tiny:latest", layers);
  registry.add("someone/odd:q4", [{ kind: "model", content: "no GGUF" }]);
  env = { NEREID_OLLAMA_REGISTRY: registry.url, XDG_CACHE_HOME: root, HF_HUB_OFFLINE: "0" };
});
after(async () => {
  await registry[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function textOf(stdout: string): unknown {
  return Reflect.get(Object(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")), "text");
}

test("nereid run takes a name of Ollama's library, with its parameters and the GGUF file's own template", async () => {
  registry.cutAfter = 100_000;
  const [run, folder] = await Promise.all([
    runCli(["run", "tiny:1b", ...QUESTION], env),
    runCli(["run", TINY, ...QUESTION, "--temperature=0"], env),
  ]);
  assert.equal(run.code, 0, run.stdout + run.stderr);
  assert.equal(textOf(run.stdout), textOf(folder.stdout));
  assert.match(run.stdout, /"event":"warning".*trying again/);
  const before = registry.requests.length;
  assert.match((await runCli(["show", "tiny:1b"], env)).stdout, /^temperature +0$/m);
  assert.equal(registry.requests.length, before);
});

test("names that share a blob share the file, and nereid rm keeps what another name has", async () => {
  const blobs = join(root, "nereid/models/registries/blobs");
  const pull = await runCli(["pull", "tiny", "-q"], env);
  assert.match(pull.stdout, /registries\/models\/registry\.ollama\.ai\/library\/tiny\/latest\/model\.gguf\n$/);
  const list = await runCli(["list"], env);
  assert.deepEqual(
    list.stdout
      .split("\n")
      .slice(1, -1)
      .map((line) => line.split(/ {2,}/)[0]),
    ["tiny:1b", "tiny:latest"],
  );
  assert.equal(readdirSync(blobs).length, 2);
  assert.match((await runCli(["rm", "tiny:1b"], env)).stdout, /^Removed tiny:1b \(22\.\d MiB\)\n$/);
  assert.equal(readdirSync(blobs).length, 2);
  assert.equal((await runCli(["rm", "tiny"], env)).code, 0);
  assert.deepEqual(readdirSync(blobs), []);
});

test("nereid serve says what a registry does not have, or what is no model", async () => {
  const [unknown, offline, broken] = await Promise.all([
    runCli(["serve", "tiny:9b"], env),
    runCli(["serve", "other", "--offline"], env),
    runCli(["serve", "ollama:someone/odd:q4"], env),
  ]);
  assert.match(
    unknown.stderr,
    /'tiny:9b' is neither here nor at http:.* 404.*\nCheck the name and its tag at ollama\.com\/library/,
  );
  assert.match(offline.stderr, /'other' is no folder or file here.*the network may not be used/);
  assert.match(broken.stderr, /nereid serve: .*model\.gguf/);
  assert.deepEqual([unknown.code, offline.code, broken.code], [1, 1, 1]);
  assert.equal(existsSync(join(root, "nereid/models/registries/models/registry.ollama.ai/library/other")), false);
});
