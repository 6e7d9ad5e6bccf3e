import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { HashRunner } from "../../../../tests/fakes/hash-runner.ts";
import { inheritedFlags } from "../../child-process/inherited-flags.ts";
import type { Logger } from "../../observe/log.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import { EngineHost, type EngineHostOptions } from "./engine-host.ts";

const ENTRY = fileURLToPath(new URL("../../../../tests/fakes/engine-host.ts", import.meta.url));

function captureLog(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const write = (_: string, message: string): void => {
    lines.push(message);
  };
  return { log: { info: write, warn: write, error: write, verbose: () => undefined, table: write }, lines };
}

async function startHost(
  t: TestContext,
  changes: Partial<EngineHostOptions> = {},
  behaviour = "",
  warmUpSeconds = 0,
): Promise<{ host: EngineHost; lines: string[] }> {
  const { log, lines } = captureLog();
  const engine = { ...DEFAULT_ENGINE_CONFIG, maxSequences: 4 };
  const spec = { modelDir: "/nowhere", engine, kvCacheTokens: 0, numThreads: 0, warmUpSeconds };
  const env = { FAKE_HOST: behaviour };
  const host = await EngineHost.start({ name: "tiny", spec, log, entry: ENTRY, env, firstBackoffMs: 20, ...changes });
  t.after(() => host.close());
  return { host, lines };
}

function request(prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 12, ...changes };
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; last: GeneratedChunk }> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    last = chunk;
  }
  assert.ok(last !== undefined, "expected");
  return { tokens, last };
}

async function untilReady(host: EngineHost): Promise<void> {
  while (!host.isReady()) await sleep(10);
}

function kill(host: EngineHost, signal: NodeJS.Signals): void {
  assert.ok(host.pid !== undefined, "expected");
  process.kill(host.pid, signal);
}

test("generate() through a process gives what the engine gives in this one, for every kind of request", async (t) => {
  const requests = [
    request([1, 2, 3]),
    request([1, 2, 3], { temperature: 0.8, topK: 20, topP: 0.9, seed: 2n ** 63n + 5n, repetitionPenalty: 1.2 }),
    request([4], { logProbs: true, minTokens: 4, endIds: Int32Array.of(3, 9, 12, 30) }),
    request([5], { stopWords: [Int32Array.of(1, 2), Int32Array.of(33)], badWords: [Int32Array.of(40)], maxTokens: 40 }),
    request([6], { logitBias: new Float32Array(64).fill(9, 10, 12), presencePenalty: 0.5, frequencyPenalty: 0.25 }),
    request([64, 7], { promptTable: { numRows: 1, values: Float32Array.of(0.5, 1, 2, 3) }, cacheSalt: "é" }),
  ];
  const engine = new LlmEngine(new HashRunner({ numBlocks: 128 }), { ...DEFAULT_ENGINE_CONFIG, maxSequences: 4 });
  const { host, lines } = await startHost(t);
  assert.deepEqual(host.info, {
    vocabSize: 64,
    hiddenSize: 4,
    hasAxes: false,
    takesEmbeddings: true,
    blockSize: 4,
    numBlocks: 128,
    maxSequenceLength: 256,
    eosTokenIds: [],
  });
  const here = await Promise.all(requests.map((each) => collect(engine.generate(each))));
  const there = await Promise.all(requests.map((each) => collect(host.generate(each))));
  for (const [i, result] of there.entries()) {
    assert.deepEqual(result.tokens, here[i]?.tokens);
    assert.equal(result.last.finishReason, here[i]?.last.finishReason);
    assert.equal(result.last.cumLogProb.toFixed(4), here[i]?.last.cumLogProb.toFixed(4));
    assert.equal(result.last.usage?.outputTokens, result.tokens.length);
  }
  assert.equal(host.stats().kvBlocksUsed, 0);
  assert.equal(host.stats().outputTokens, here.flatMap((each) => each.tokens).length);
  assert.equal(
    lines.some((line) => line.includes("fake host loads")),
    true,
  );
  await host.close();
  await engine.close();
});

test("generate() refuses a bad request without troubling the host", async (t) => {
  const { host } = await startHost(t);
  await assert.rejects(collect(host.generate(request([99]))), /outside the vocabulary/);
  await host.close();
  await assert.rejects(collect(host.generate(request([1]))), /not ready/);
});

test("an abort reaches the host and frees the blocks there", async (t) => {
  const { host } = await startHost(t);
  const controller = new AbortController();
  const running = collect(host.generate(request([1], { maxTokens: 200, signal: controller.signal })));
  while (host.stats().scheduled === 0) await sleep(2);
  controller.abort();
  const { last, tokens } = await running;
  assert.equal(last.finishReason, "cancelled");
  assert.equal(tokens.length < 200, true);
  while (host.stats().active > 0) await sleep(2);
  assert.equal(host.stats().kvBlocksUsed, 0);
  await host.close();
});

for (const signal of ["SIGSEGV", "SIGABRT", "SIGKILL"] as const) {
  test(`a host that dies of ${signal} under load fails what it had started, once, and is replaced`, async (t) => {
    const { host, lines } = await startHost(t);
    await collect(host.generate(request([5]))); // its successor starts without a pause
    const running = Array.from({ length: 4 }, (_, i) => collect(host.generate(request([i], { maxTokens: 120 }))));
    const waiting = Array.from({ length: 3 }, (_, i) => collect(host.generate(request([i + 10]))));
    const settled = Promise.allSettled([...running, ...waiting]);
    while (host.stats().scheduled < 4) await sleep(2);
    kill(host, signal);
    while (host.isReady()) await sleep(1);
    const { tokens } = await collect(host.generate(request([1]))); // waits for the next host
    assert.equal(tokens.length, 12);
    const results = await settled;
    for (const each of results.slice(0, 4)) {
      assert.equal(each.status, "rejected");
      const expected = new RegExp(`engine host of 'tiny' ended unexpectedly \\(signal ${signal}\\) while it served`);
      assert.match(String(each.status === "rejected" && each.reason), expected);
    }
    assert.deepEqual(
      results.slice(4).map((each) => each.status),
      ["fulfilled", "fulfilled", "fulfilled"],
    );
    assert.equal(host.isReady(), true);
    assert.equal(
      lines.some((line) => line.includes(`(signal ${signal})`)),
      true,
    );
    assert.ok(lines.some((line) => line.includes("starting a new engine host in 0 ms")));
    assert.equal((await collect(host.generate(request([1])))).tokens.length, 12);
    await host.close();
  });
}

test("a request that waits outlives a host that is killed while it loads", async (t) => {
  const { host } = await startHost(t);
  await collect(host.generate(request([5])));
  const { pid } = host;
  kill(host, "SIGKILL");
  while (host.isReady() || host.pid === undefined || host.pid === pid) await sleep(1);
  const waiting = collect(host.generate(request([1])));
  kill(host, "SIGKILL");
  assert.equal((await waiting).tokens.length, 12);
  await host.close();
});

test("a request is refused while a host is away for longer than is worth waiting", async (t) => {
  const { host } = await startHost(t, { maxWaitMs: 0 });
  await collect(host.generate(request([5])));
  kill(host, "SIGKILL");
  while (host.isReady()) await sleep(1);
  const refused = collect(host.generate(request([1])));
  await assert.rejects(refused, /engine host of 'tiny' is not ready: it is being restarted/);
  await untilReady(host);
  await host.close();
});

test("start() rejects with the cause when loading fails, exits or hangs", async (t) => {
  await assert.rejects(startHost(t, {}, "fail-at-load"), /^ServerError: no weights in the folder$/);
  await assert.rejects(startHost(t, {}, "exit-at-load"), /'tiny' ended unexpectedly \(exit code 3\) while loading/);
  await assert.rejects(
    startHost(t, { loadTimeoutMs: 1500 }, "hang-at-load"),
    /'tiny' ended unexpectedly \(loading took more than 1.5 s\) while loading/,
  );
  await assert.rejects(startHost(t, { entry: "/nowhere/host.ts" }), /'tiny' ended unexpectedly \(exit code 1\)/);
});

test("start() generates a few tokens, which count nowhere, and refuses a model whose steps fail", async (t) => {
  // On a slow machine there are two steps before a host is ready.
  await assert.rejects(startHost(t, {}, "fail-at-first-step", 30), /a step of the engine failed: the device is lost/);
  const { host } = await startHost(t, {}, "", 30);
  assert.deepEqual([host.stats().outputTokens, host.stats().iteration, host.stats().kvBlocksUsed], [0, 0, 0]);
  await host.close();
});

test("a step that hangs or fails costs the requests under way, and the host is replaced", async (t) => {
  const hung = await startHost(t, { stepTimeoutMs: 300 }, "hang-at-step");
  await assert.rejects(collect(hung.host.generate(request([1]))), /\(no step ended within 0.3 s\) while it served/);
  await untilReady(hung.host);
  await hung.host.close();
  const failed = await startHost(t, {}, "fail-at-step");
  await assert.rejects(collect(failed.host.generate(request([1]))), /a step of the engine failed: the device is lost/);
  while (failed.host.isReady()) await sleep(2);
  await untilReady(failed.host);
  assert.equal((await collect(failed.host.generate(request([1], { maxTokens: 2 })))).tokens.length, 2);
  await failed.host.close();
});

test("requests that wait are failed when no new host can be loaded", async (t) => {
  const marker = join(mkdtempSync(join(tmpdir(), "nereid-")), "loaded");
  const { host } = await startHost(t, {}, `load-once:${marker}`);
  const running = Array.from({ length: 4 }, (_, i) => collect(host.generate(request([i], { maxTokens: 120 }))));
  const settled = Promise.allSettled([...running, collect(host.generate(request([9])))]);
  while (host.stats().scheduled < 4) await sleep(2);
  kill(host, "SIGKILL");
  const last = (await settled).at(-1);
  assert.match(
    String(last?.status === "rejected" && last.reason),
    /the engine could not be loaded: the weights are gone\) before this request was started/,
  );
  await host.close();
});

test("close() fails what runs and leaves no process behind", async (t) => {
  const { host } = await startHost(t);
  const pid = host.pid ?? 0;
  const running = assert.rejects(collect(host.generate(request([1], { maxTokens: 200 }))), /closed/);
  while (host.stats().scheduled === 0) await sleep(2);
  await host.close();
  await running;
  assert.throws(() => process.kill(pid, 0), /ESRCH/);
});

test("a host ends when its server is killed", async () => {
  const module = new URL("./host-process.ts", import.meta.url).href;
  const code = `import { HostProcess } from ${JSON.stringify(module)};
    const ignore = () => undefined;
    const events = { onFrame: ignore, onExit: ignore, onOutput: () => process.stdout.write(host.pid + "\\n") };
    const host = new HostProcess({ entry: ${JSON.stringify(ENTRY)} }, events);
    host.send(new Uint8Array(Int32Array.of(4, 1, 2, 0x7d7b).buffer)); // load, with the text "{}"`;
  const server = spawn(process.execPath, [...inheritedFlags(process.execArgv), "--input-type=module", "-e", code]);
  const [output] = await once(server.stdout, "data");
  const pid = Number.parseInt(String(output), 10);
  assert.equal(process.kill(pid, 0), true);
  server.kill("SIGKILL");
  const isAlive = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (isAlive()) await sleep(10);
  assert.equal(isAlive(), false);
});
