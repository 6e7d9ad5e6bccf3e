/**
 * Models with an encoder and a decoder, each in two configurations, against what Hugging Face transformers computed with the same
 * tiny model (record_encoder_decoders.py): logits of each step, and requests of the engine side by side, beams included.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import type { EncoderInput } from "../../server/src/engine/request/encoder-input.ts";
import {
  type GeneratedChunk,
  type GenerateRequest,
  NEUTRAL_REQUEST,
} from "../../server/src/engine/request/generate.ts";
import { append, argmax, contiguousBlocks, stepOf, TestSequence } from "../../server/src/engine/testing/sequences.ts";
import { openModelFiles } from "../../server/src/formats/hf/model-files.ts";
import { parseDecoderConfig } from "../../server/src/models/config/parse-decoder-config.ts";
import { expectCudaSupport } from "../../server/src/models/cuda/supported.ts";
import { ENCODER_DECODERS, type EncoderDecoder, encoderInputOf, readEncoderDecoder } from "./encoder-decoders.ts";

/** Largest difference of logits. Recorded logits have five decimals. */
const BOUND = 1e-4;
const SHAPE = { numBlocks: 48, blockSize: 4, numThreads: 1 };
const SCATTERED = contiguousBlocks(0, 12).map((i) => 16 + ((i * 11 + 5) % 32));
const NAMES = readdirSync(ENCODER_DECODERS).sort();

for (const name of NAMES) {
  test(`${name} gives the recorded tokens and logits`, async (t) => {
    const modelDir = `${ENCODER_DECODERS}${name}`;
    const expected = readEncoderDecoder(name);
    const runner = await createDecoderRunner({ ...SHAPE, modelDir });
    t.after(() => runner.close());
    const input = encoderInputOf(expected);
    const sequence = new TestSequence(SCATTERED, undefined, 3, input);
    const chosen: number[] = [];
    let off = 0;
    let tokens = expected.prompt;
    for (const logits of expected.logits) {
      const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
      off = Math.max(off, maxDifference(actual, logits));
      tokens = [argmax(actual)];
      chosen.push(...tokens);
    }
    t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
    assert.ok(off < BOUND, `logits are off by ${off}`);
    assert.deepEqual(chosen, expected.greedy);
  });
}

async function openEngine(t: TestContext, name: string, changes: Partial<EngineConfig>, numBlocks = 48) {
  const config = { ...DEFAULT_ENGINE_CONFIG, maxSequences: 6, ...changes };
  const runner = await createDecoderRunner({ ...SHAPE, numBlocks, modelDir: ENCODER_DECODERS + name, numStates: 6 });
  const engine = new LlmEngine(runner, config);
  t.after(() => engine.close());
  return engine;
}

async function lastOf(chunks: AsyncIterable<GeneratedChunk>): Promise<{ tokens: number[]; last: GeneratedChunk }> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  for await (last of chunks) tokens.push(...last.tokenIds);
  assert.ok(last !== undefined, "a chunk");
  return { tokens, last };
}

function requestFor({ prompt, greedy }: EncoderDecoder, encoderInput: EncoderInput, known = 0): GenerateRequest {
  const promptTokens = Int32Array.from([...prompt, ...greedy.slice(0, known)]);
  return { ...NEUTRAL_REQUEST, promptTokens, maxTokens: greedy.length - known, encoderInput };
}

/** Another input of the same size. */
function otherThan(input: EncoderInput): EncoderInput {
  return input.kind === "tokens"
    ? { ...input, tokens: input.tokens.map((id, i) => (i === 0 ? (id % 60) + 4 : id)) }
    : { ...input, values: input.values.map((value) => 1 - value) };
}

for (const name of ["t5-flan", "bart", "whisper"]) {
  test(`${name}: requests side by side, after preemption and from prefixes, give the recorded tokens`, async (t) => {
    const expected = readEncoderDecoder(name);
    const input = encoderInputOf(expected);
    const engine = await openEngine(t, name, { policy: "max_utilization", maxBatchTokens: 16 }, 3);
    const lengths = [0, 0, 2, 1, 4, 0, 3, 0];
    const answers = await Promise.all(
      lengths.map((known) => lastOf(engine.generate(requestFor(expected, input, known)))),
    );
    assert.deepEqual(
      answers.map(({ tokens }) => tokens),
      lengths.map((known) => expected.greedy.slice(known)),
    );
    assert.ok(engine.stats().preemptions > 0, "blocks ran out");
    engine.checkIntegrity();
  });

  test(`${name}: equal prompts behind different encoder inputs share no blocks, and behind equal ones do`, async (t) => {
    const expected = readEncoderDecoder(name);
    const input = encoderInputOf(expected);
    const engine = await openEngine(t, name, {});
    const ask = async (of: EncoderInput) => {
      const promptTokens = Int32Array.from({ length: 9 }, (_, i) => expected.prompt[i] ?? 5 + i);
      const { tokens, last } = await lastOf(
        engine.generate({ ...NEUTRAL_REQUEST, promptTokens, maxTokens: 3, encoderInput: of, generationLogits: true }),
      );
      return { tokens, logits: last.extras?.generationLogits, reused: last.usage?.reusedBlocks };
    };
    const first = await ask(input);
    const other = await ask(otherThan(input));
    const again = await ask(input);
    assert.deepEqual([first.reused, other.reused], [0, 0]);
    assert.equal(again.reused, 2);
    assert.deepEqual(again.tokens, first.tokens);
  });

  test(`${name}: beams have the scores of one pass over each`, async (t) => {
    const expected = readEncoderDecoder(name);
    const input = encoderInputOf(expected);
    const engine = await openEngine(t, name, {});
    const { prompt } = expected;
    const beams = { maxTokens: 5, beamWidth: 3, numReturnBeams: 3, endIds: new Int32Array() };
    const { last } = await lastOf(engine.generate({ ...requestFor(expected, input), ...beams }));
    const runner = await createDecoderRunner({ ...SHAPE, modelDir: ENCODER_DECODERS + name });
    t.after(() => runner.close());
    assert.equal(last.beams?.length, 3);
    for (const { tokenIds, cumLogProb } of last.beams ?? []) {
      const sequence = new TestSequence(contiguousBlocks(0, 12), undefined, 0, input);
      const step = stepOf(runner, [{ sequence, tokens: [...prompt, ...tokenIds.subarray(0, -1)] }]);
      const logitRows = Int32Array.from(tokenIds, (_, i) => prompt.length - 1 + i);
      const logits = await runner.run({ ...step, logitRows });
      let sum = 0;
      for (const [i, token] of tokenIds.entries()) {
        const row = logits.subarray(i * runner.vocabSize, (i + 1) * runner.vocabSize);
        sum += (row[token] ?? 0) - Math.log(row.reduce((mass, value) => mass + Math.exp(value), 0));
      }
      assert.ok(Math.abs(sum - cumLogProb) < 1e-3, `${sum}, reported ${cumLogProb}`);
    }
  });
}

test("an encoder's input that is missing, of the wrong kind or size is refused", async (t) => {
  const text = await openEngine(t, "t5", {});
  const sound = await openEngine(t, "whisper", {});
  const decoder = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.of(0) };
  const refused = (engine: LlmEngine, encoderInput: EncoderInput | undefined, expected: RegExp) =>
    assert.rejects(lastOf(engine.generate({ ...decoder, encoderInput })), expected);
  const frames = (values: Float32Array, width: number) => ({ kind: "frames" as const, values, width });
  await refused(text, undefined, /encoder, whose input is missing: .*'input_ids'/);
  await refused(sound, undefined, /encoder of sound, whose input is missing: 'encoder_input_features'/);
  await refused(text, frames(new Float32Array(8), 8), /input of the encoder is frames, expected tokens/);
  await refused(text, { kind: "tokens", tokens: Int32Array.of(3, 72) }, /encoder id 72 at position 1/);
  await refused(text, { kind: "tokens", tokens: new Int32Array(1025) }, /1025 tokens, expected 1 to 1024/);
  await refused(sound, frames(new Float32Array(8 * 25), 8), /25 frames, expected 1 to 24/);
  await refused(sound, frames(new Float32Array(10), 5), /have 5 numbers, expected 8/);
  await refused(sound, frames(new Float32Array(8).fill(Number.NaN), 8), /is NaN, expected a finite one/);
});

test("a GPU and the deterministic mode refuse these models, and say what can be done", async () => {
  const modelDir = `${ENCODER_DECODERS}t5`;
  const { files, tensors } = await openModelFiles(modelDir);
  await tensors.close();
  const { config, weights } = parseDecoderConfig(files);
  assert.throws(() => expectCudaSupport(config, weights), /attention to an encoder.*Serve it on the CPU/);
  const deterministic = createDecoderRunner({ ...SHAPE, modelDir, isDeterministic: true });
  await assert.rejects(deterministic, /models with an encoder and a decoder have no such mode/);
});
