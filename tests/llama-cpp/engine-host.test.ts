import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import type { EngineName } from "../../server/src/engine/engine-spec.ts";
import { EngineHost } from "../../server/src/engine/host/engine-host.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { Logger } from "../../server/src/observe/log.ts";

const MODELS = fileURLToPath(new URL("models/", import.meta.url));
const EXPECTED = JSON.parse(await readFile(`${MODELS}expected.json`, "utf8")) as Record<
  string,
  readonly { readonly prompt: readonly number[]; readonly output: readonly number[] }[]
>;
const folder = await mkdtemp(join(tmpdir(), "llama-cpp-host-"));
after(() => rm(folder, { recursive: true }));

async function start(
  t: TestContext,
  path: string,
  engineName?: EngineName,
): Promise<{ host: EngineHost; lines: readonly string[] }> {
  const lines: string[] = [];
  const write = (_: string, message: string): void => {
    lines.push(message);
  };
  const log: Logger = { info: write, warn: write, error: write, verbose: () => undefined, table: write };
  const engine = { ...DEFAULT_ENGINE_CONFIG, maxSequences: 4 };
  const spec = { modelDir: path, engineName, engine, kvCacheTokens: 512, numThreads: 1 };
  const host = await EngineHost.start({ name: "tiny", spec, log, firstBackoffMs: 20 });
  t.after(() => host.close());
  return { host, lines };
}

async function generate(host: EngineHost, prompt: readonly number[], maxTokens = 12): Promise<number[]> {
  const tokens: number[] = [];
  const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens };
  for await (const chunk of host.generate(request)) tokens.push(...chunk.tokenIds);
  return tokens;
}

test("a host serves an architecture that only libllama knows, says so, and its death costs the started request alone", async (t) => {
  const { host, lines } = await start(t, `${MODELS}mamba.gguf`);
  const [run] = EXPECTED.mamba ?? [];
  assert.ok(run !== undefined, "recorded");
  assert.deepEqual(await generate(host, run.prompt), run.output);
  const line = lines.find((each) => each.includes("engine llama.cpp"));
  assert.match(
    line ?? "",
    /^tiny: engine llama\.cpp 0\.5\.0\S* on the CPU serves mamba .*: engine nereid does not know the model: .* got mamba$/,
  );
  assert.deepEqual(host.info.eosTokenIds, [2]);
  const lost = generate(host, run.prompt, 200);
  lost.catch(() => undefined);
  while (host.stats().active === 0) await sleep(1);
  process.kill(host.pid ?? 0, "SIGABRT");
  await assert.rejects(lost, { message: /ended unexpectedly \(signal SIGABRT\) while it served this request/ });
  while (!host.isReady()) await sleep(10);
  assert.deepEqual(await generate(host, run.prompt), run.output);
});

test("files that are no models are refused with the file and the reason, by name of either engine", async (t) => {
  const bytes = await readFile(`${MODELS}starcoder2.gguf`);
  const unknown = Buffer.from(bytes.toString("latin1").replaceAll("starcoder2", "starcoder9"), "latin1");
  const path = join(folder, "broken.gguf");
  const refusals: readonly (readonly [Buffer, EngineName | undefined, RegExp])[] = [
    [unknown, "nereid", /broken\.gguf: general\.architecture: expected .*, got starcoder9/],
    [bytes.subarray(0, 60_000), undefined, /broken\.gguf: .*(within|bounds|corrupted)/],
    [unknown, undefined, /unknown model architecture: 'starcoder9'/],
  ];
  for (const [content, name, message] of refusals) {
    await writeFile(path, content);
    await assert.rejects(start(t, path, name), { message });
  }
});
