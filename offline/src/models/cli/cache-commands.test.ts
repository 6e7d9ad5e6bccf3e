/** `nereid pull`, `list`, `show`, `rm` and `cp` as processes, on a cache that a local hub fills. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runCli } from "@nereid/server/cli/cli.test-support";
import { FakeHub } from "@nereid/server/hub/hub-server.test-support";

const TINY = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model/", import.meta.url));

let root = "";
let hub: FakeHub;
let env: Record<string, string>;

before(async () => {
  root = mkdtempSync(join(tmpdir(), "nereid-cache-"));
  hub = await FakeHub.start();
  for (const name of readdirSync(TINY)) hub.add(name, readFileSync(join(TINY, name)), name.endsWith(".safetensors"));
  for (const label of ["Q4_0", "Q8_0"]) hub.add(`tiny-${label}.gguf`, `content of ${label}`, true);
  env = { HF_ENDPOINT: hub.endpoint, HF_HOME: join(root, "hf"), XDG_CACHE_HOME: join(root, "cache") };
  assert.match((await runCli(["list"], env)).stdout, /^No model is here\. nereid pull NAME fetches one\./);
  for (const name of ["org/tiny", "org/tiny:Q4_0", "org/tiny:q8_0"]) {
    const { code, stdout, stderr } = await runCli(["pull", name, "-q"], env);
    assert.deepEqual([code, stderr, existsSync(stdout.trim())], [0, "", true]);
  }
});
after(async () => {
  await hub[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

const listed = async (): Promise<string[]> => {
  const { models } = JSON.parse((await runCli(["list", "--json"], env)).stdout) as { models: { name: string }[] };
  return models.map(({ name }) => name);
};

test("nereid list shows names, formats and sizes", async () => {
  const { stdout } = await runCli(["list"], env);
  const rows = stdout.split("\n").map((line) => line.split(/ {2,}/).slice(0, 3));
  assert.deepEqual(rows[0], ["NAME", "FORMAT", "SIZE"]);
  assert.deepEqual(rows[1]?.slice(0, 2), ["org/tiny", "safetensors"]);
  assert.deepEqual(rows.slice(2, 4), [
    ["org/tiny:Q4_0", "gguf", "15 B"],
    ["org/tiny:Q8_0", "gguf", "15 B"],
  ]);
});

test("nereid show tells what a model is, by any of its names", async () => {
  await runCli(["cp", "org/tiny", "small"], env);
  const [shown, second, template] = await Promise.all([
    runCli(["show", "org/tiny"], env),
    runCli(["show", "small", "--json"], env),
    runCli(["show", "small", "--template"], env),
  ]);
  assert.match(
    shown.stdout,
    /^architecture +LlamaForCausalLM\nparameters +11,801,472\nweights +bf16 \(22\.5 MiB\)\ncontext +2048 tokens\n/m,
  );
  assert.equal(Reflect.get(Object(JSON.parse(second.stdout)), "contextLength"), 2048);
  assert.equal(template.stdout.trimEnd(), readFileSync(join(TINY, "chat_template.jinja"), "utf8").trimEnd());
});

test("nereid cp gives names that are free, to models that are here", async () => {
  const [taken, path, unknown] = await Promise.all([
    runCli(["cp", "org/tiny", "small"], env),
    runCli(["cp", "org/tiny", "a/b"], env),
    runCli(["cp", "org/none", "other"], env),
  ]);
  assert.match(taken.stderr, /'small' stands for org\/tiny already\nnereid rm small, first/);
  assert.match(path.stderr, /'a\/b' cannot be a second name/);
  assert.match(unknown.stderr, /org\/none at 'main' is not complete/);
});

test("nereid rm asks before it removes what other tools share, and removes no more than was named", async () => {
  const snapshot = join(root, "hf/hub/models--org--tiny/snapshots", hub.commit);
  const unasked = await runCli(["rm", "org/tiny:Q4_0"], env);
  assert.equal(unasked.code, 1);
  assert.match(
    unasked.stderr,
    /Other tools of the Hugging Face hub use these files too:\n.*Q4_0.*15 B.*\nNothing was removed\nGive --yes/,
  );
  const unknown = await runCli(["rm", "org/tiny:Q4_0", "org/none", "--yes"], env);
  assert.match(unknown.stderr, /There is no model 'org\/none' in the caches/);
  assert.ok(existsSync(join(snapshot, "tiny-Q4_0.gguf")));
  const blobs = readdirSync(join(snapshot, "../../blobs")).length;
  assert.equal((await runCli(["rm", "hf.co/org/tiny:q4_0", "--yes"], env)).stdout, "Removed org/tiny:Q4_0 (15 B)\n");
  assert.equal(existsSync(join(snapshot, "tiny-Q4_0.gguf")), false);
  assert.equal(readdirSync(join(snapshot, "../../blobs")).length, blobs - 1);
  assert.deepEqual(await listed(), ["org/tiny", "org/tiny:Q8_0", "small"]);
});

test("nereid rm removes a second name before the model", async () => {
  const refused = await runCli(["rm", "org/tiny", "-y"], env);
  assert.match(refused.stderr, /'small' stands for org\/tiny\nnereid rm small, before it/);
  assert.equal((await runCli(["rm", "small"], env)).stdout, "Removed small\n");
  assert.equal((await runCli(["rm", "org/tiny", "-y"], env)).code, 0);
  assert.deepEqual(await listed(), []);
  assert.deepEqual(readdirSync(join(root, "hf/hub")), []);
});
