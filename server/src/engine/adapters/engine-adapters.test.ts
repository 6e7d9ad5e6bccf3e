/** Requests with adapters through the engine: side by side, one after the other, with beams, cancelled, refused. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "../cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "../request/generate.ts";
import type { AdapterSpec } from "./adapter-choice.ts";
import { AdapterLibrary } from "./adapter-library.ts";

const PARITY = fileURLToPath(new URL("../../../../tests/parity/", import.meta.url));
const NAMES = ["a", "b", "c", "d", "e", "f", "g"] as const;
const readJson = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;
const BASE = readJson<{ prompt: number[]; greedy: number[] }>(`${PARITY}models/llama-3.2/expected.json`);
const GREEDY = new Map(
  NAMES.map((name) => [
    name,
    readJson<{ greedy: number[] }>(`${PARITY}adapters/llama-3.2/${name}/expected.json`).greedy,
  ]),
);

async function withEngine(
  spec: Partial<AdapterSpec>,
  use: (engine: LlmEngine, library: AdapterLibrary) => Promise<void>,
): Promise<void> {
  const runner = await createDecoderRunner({
    modelDir: `${PARITY}models/llama-3.2`,
    numBlocks: 256,
    blockSize: 4,
    numThreads: 1,
  });
  const all: AdapterSpec = {
    folders: [],
    root: `${PARITY}adapters/llama-3.2`,
    maxBytes: 1 << 20,
    maxRank: 64,
    ...spec,
  };
  const library = await AdapterLibrary.open(runner.adapters, all);
  const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG, () => undefined, { adapters: library });
  try {
    await use(engine, library);
    library.cache.checkIntegrity(0);
    engine.checkIntegrity();
  } finally {
    await engine.close();
  }
}

function request(adapter: string | undefined, changes: Partial<GenerateRequest> = {}): GenerateRequest {
  const choice = adapter === undefined ? undefined : ({ kind: "name", text: adapter } as const);
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(BASE.prompt), maxTokens: 8, adapter: choice, ...changes };
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; last: GeneratedChunk }> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    last = chunk;
  }
  assert.ok(last);
  return { tokens, last };
}

test("generate() gives eight requests with eight adapters, one of them none, what each gets alone", async () => {
  await withEngine({}, async (engine) => {
    const choices = [undefined, ...NAMES];
    const answers = await Promise.all(choices.map((name) => collect(engine.generate(request(name)))));
    for (const [i, name] of choices.entries()) {
      const expected = name === undefined ? BASE.greedy.slice(0, 8) : GREEDY.get(name);
      assert.deepEqual(answers[i]?.tokens, expected, `adapter ${name}`);
    }
  });
});

test("generate() serves more adapters than the memory holds, a few at a time", async () => {
  await withEngine({ maxBytes: 64_000 }, async (engine, library) => {
    const names = [...NAMES, ...NAMES];
    const answers = await Promise.all(names.map((name) => collect(engine.generate(request(name)))));
    for (const [i, name] of names.entries()) assert.deepEqual(answers[i]?.tokens, GREEDY.get(name), `adapter ${name}`);
    assert.ok(library.cache.numBytes <= 64_000);
  });
});

test("generate() shares cache blocks among requests with the same adapter only", async () => {
  await withEngine({}, async (engine) => {
    const reused: number[] = [];
    for (const name of [undefined, "a", "a", "b", undefined]) {
      reused.push((await collect(engine.generate(request(name)))).last.usage?.reusedBlocks ?? -1);
    }
    const shared = Math.floor((BASE.prompt.length - 1) / 4);
    assert.deepEqual(reused, [0, 0, shared, 0, shared]);
  });
});

test("generate() searches with beams under an adapter", async () => {
  await withEngine({}, async (engine) => {
    const alone = await collect(engine.generate(request("c", { beamWidth: 3, numReturnBeams: 3 })));
    const beside = await Promise.all(
      ["c", "d", undefined].map((name) => collect(engine.generate(request(name, { beamWidth: 3, numReturnBeams: 3 })))),
    );
    const beams = beside.map(({ last }) => last.beams?.map(({ tokenIds }) => [...tokenIds]));
    assert.deepEqual(
      beams[0],
      alone.last.beams?.map(({ tokenIds }) => [...tokenIds]),
    );
    assert.notDeepEqual(beams[0], beams[1]);
    assert.notDeepEqual(beams[0], beams[2]);
  });
});

test("generate() gives an adapter back when its request is cancelled, while it waits for memory or runs", async () => {
  await withEngine({ maxBytes: 60_000 }, async (engine) => {
    const running = new AbortController();
    const waiting = new AbortController();
    const first = collect(engine.generate(request("b", { maxTokens: 60, signal: running.signal })));
    const second = collect(engine.generate(request("f", { signal: waiting.signal })));
    const third = collect(engine.generate(request("a")));
    waiting.abort();
    assert.equal((await second).last.finishReason, "cancelled");
    running.abort();
    assert.equal((await first).last.finishReason, "cancelled");
    assert.deepEqual((await third).tokens, GREEDY.get("a"));
  });
});

test("generate() refuses an adapter that nobody knows, and goes on with others", async () => {
  await withEngine({}, async (engine) => {
    const unknown = collect(engine.generate(request(undefined, { adapter: { kind: "task", id: 9n } })));
    await assert.rejects(unknown, { code: "invalid_argument", message: /^LoRA task 9 not found in cache/ });
    assert.deepEqual((await collect(engine.generate(request("a")))).tokens, GREEDY.get("a"));
  });
});

test("generate() refuses adapters when the engine has none", async () => {
  const runner = await createDecoderRunner({ modelDir: `${PARITY}models/llama-3.2`, numBlocks: 32, blockSize: 4 });
  const engine = new LlmEngine(runner, DEFAULT_ENGINE_CONFIG);
  await assert.rejects(collect(engine.generate(request("a"))), { message: "this engine has no LoRA adapters" });
  await engine.close();
});
