import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Datatype } from "@nereid/wire";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import { bytesElements, packBytesElements } from "../../core/bytes-tensor.ts";
import { NO_PARAMETERS, NO_SEQUENCE, type RequestOrigin } from "../../core/infer-request.ts";
import { MAX_PROMPT_BYTES } from "../../core/limits.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { Batch, ModelInstance, ModelSource } from "../backend.ts";
import { intValues } from "./tensor-values.ts";
import { createTokenizerBackend } from "./tokenizer-backend.ts";

const EXAMPLES = new URL("../../../../examples/", import.meta.url);
const PLAIN = { addSpecialTokens: false };
const tokenizer = await loadTokenizer(fileURLToPath(new URL("nereid-tiny/language_model", EXAMPLES)));

describe("preprocessing", () => {
  test("makes the ids that the engine takes, for a prompt that brings its start token and word lists of nothing", async () => {
    const [prompt] = JSON.parse(readFileSync(new URL("nereid-tiny/golden_text.json", EXAMPLES), "utf8"));
    const outputs = await run(await instanceOf("preprocessing"), [
      text("QUERY", [prompt.prompt], [1, 1]),
      ints("REQUEST_OUTPUT_LEN", [500], [1, 1]),
      text("BAD_WORDS_DICT", [""], [1, 1]),
      text("STOP_WORDS_DICT", [""], [1, 1]),
    ]);
    const length = prompt.input_ids.length;
    assert.deepEqual(summary(outputs), {
      INPUT_ID: ["INT32", [1, length], prompt.input_ids],
      REQUEST_INPUT_LEN: ["INT32", [1, 1], [length]],
      DECODER_INPUT_ID: ["INT32", [1, 1], [0]],
      REQUEST_DECODER_INPUT_LEN: ["INT32", [1, 1], [1]],
      BAD_WORDS_IDS: ["INT32", [1, 2, 0], []],
      STOP_WORDS_IDS: ["INT32", [1, 2, 0], []],
      EMBEDDING_BIAS: ["FP32", [1, 0], []],
      REQUEST_OUTPUT_LEN: ["INT32", [1, 1], [500]],
      OUT_END_ID: ["INT32", [1, 1], [2]],
      OUT_PAD_ID: ["INT32", [1, 1], [0]],
    });
  });

  test("pads the rows of a batch on the right and encodes each row's words without a start token", async () => {
    const outputs = await run(await instanceOf("preprocessing"), [
      text("QUERY", ["Once upon a time", "hi"], [2, 1]),
      ints("REQUEST_OUTPUT_LEN", [5, 6], [2, 1]),
      text("STOP_WORDS_DICT", [" boat", "", "x", " moon"], [2, 2]),
      ints("END_ID", [7, 8], [2, 1]),
    ]);
    const found = summary(outputs);
    const [long, short] = ["Once upon a time", "hi"].map((line) => [1, ...tokenizer.encode(line, PLAIN)]);
    const padded = [...(short ?? []), ...new Array<number>((long?.length ?? 0) - (short?.length ?? 0)).fill(0)];
    assert.deepEqual(found.INPUT_ID, ["INT32", [2, long?.length], [...(long ?? []), ...padded]]);
    assert.deepEqual(found.REQUEST_INPUT_LEN?.[2], [long?.length, short?.length]);
    assert.deepEqual(found.OUT_END_ID?.[2], [7, 8]);
    const [boat, x, moon] = [" boat", "x", " moon"].map((word) => [...tokenizer.encode(word, PLAIN)]);
    const ends = [x?.length ?? 0, (x?.length ?? 0) + (moon?.length ?? 0)];
    const [, [, , width], words] = found.STOP_WORDS_IDS as [string, [number, number, number], number[]];
    assert.deepEqual(words.slice(0, boat?.length), boat);
    assert.equal(words[width], boat?.length);
    assert.deepEqual(words.slice(2 * width, 2 * width + (ends[1] ?? 0)), [...(x ?? []), ...(moon ?? [])]);
    assert.deepEqual(words.slice(3 * width, 3 * width + 2), ends);
  });

  test("adds each word's weight to the tokens of the word and to no others", async () => {
    const outputs = await run(await instanceOf("preprocessing"), [
      text("QUERY", ["hi"], [1, 1]),
      ints("REQUEST_OUTPUT_LEN", [5], [1, 1]),
      text("EMBEDDING_BIAS_WORDS", [" boat", "x"], [1, 2]),
      {
        ...ints("EMBEDDING_BIAS_WEIGHTS", [], [1, 2]),
        datatype: "FP32",
        data: new Uint8Array(Float32Array.of(2, -3).buffer),
      },
    ]);
    const bias = outputs.find(({ name }) => name === "EMBEDDING_BIAS") ?? assert.fail("no bias");
    const values = new Float32Array(bias.data.slice().buffer);
    assert.deepEqual(bias.shape, [1, tokenizer.vocabularySize]);
    const expected = new Float32Array(tokenizer.vocabularySize);
    for (const id of tokenizer.encode(" boat", PLAIN)) expected[id] = (expected[id] ?? 0) + 2;
    for (const id of tokenizer.encode("x", PLAIN)) expected[id] = (expected[id] ?? 0) - 3;
    assert.deepEqual(values, expected);
  });

  test("answers a short text before `execute()` returns, and a long one later with the same ids as in one go", async () => {
    const instance = await instanceOf("preprocessing");
    const short = answer(instance, query("hi"));
    assert.equal(short.execution, undefined);
    const line = "A long story about boats. ".repeat(20_000);
    const long = answer(instance, query(line));
    assert.ok(long.execution instanceof Promise);
    const ids = (await long.outputs).find(({ name }) => name === "INPUT_ID") ?? assert.fail("no ids");
    assert.deepEqual([...intValues(ids)], [1, ...tokenizer.encode(line, PLAIN)]);
  });

  test("lets other work run while it encodes a long text, and stops when the client leaves", async () => {
    const leaving = new AbortController();
    const { outputs } = answer(await instanceOf("preprocessing"), query("word ".repeat(200_000)), {
      signal: leaving.signal,
    });
    setImmediate(() => leaving.abort());
    await assert.rejects(outputs, { code: "cancelled" });
  });

  test("takes a text of the largest size and refuses a longer one", async () => {
    const instance = await instanceOf("preprocessing");
    const largest = " ".repeat(MAX_PROMPT_BYTES);
    assert.ok((await answer(instance, query(largest)).outputs).length > 0);
    await assert.rejects(answer(instance, query(`${largest} `)).outputs, {
      code: "invalid_argument",
      message: `input 'QUERY' has a text of ${MAX_PROMPT_BYTES + 1} bytes, expected at most ${MAX_PROMPT_BYTES}`,
    });
  });

  test("refuses weights that do not go with the words", async () => {
    const instance = await instanceOf("preprocessing");
    const bad = [...query("hi"), text("EMBEDDING_BIAS_WORDS", ["a"], [1, 1])];
    await assert.rejects(answer(instance, bad).outputs, /must have the same length, got 1 and 0/);
  });
});

describe("postprocessing", () => {
  const STORY = "The 🚀 flew — très haut.";

  test("decodes the valid ids of each row and beam", async () => {
    const [a, b] = ["one two", "three"].map((line) => [...tokenizer.encode(line, PLAIN)]);
    const width = Math.max(a?.length ?? 0, b?.length ?? 0) + 2;
    const rows = [a ?? [], b ?? []].map((ids) => [...ids, 2, ...new Array<number>(width - ids.length - 1).fill(300)]);
    const outputs = await run(await instanceOf("postprocessing"), [
      ints("TOKENS_BATCH", rows.flat(), [2, 1, width]),
      ints("SEQUENCE_LENGTH", [(a?.length ?? 0) + 1, (b?.length ?? 0) + 1], [2, 1]),
    ]);
    assert.deepEqual(
      outputs.map(({ name, shape }) => [name, shape]),
      [["OUTPUT", [2]]],
    );
    assert.deepEqual(textsOf(outputs), ["one two", "three"]);
  });

  test("keeps characters whole and spaces in place over the chunks of a stream", async () => {
    const instance = await instanceOf("postprocessing");
    const ids = [...tokenizer.encode(STORY, PLAIN)];
    const key = {};
    const chunks: string[] = [];
    for (const [index, id] of ids.entries()) {
      chunks.push(...textsOf(await run(instance, chunk([id]), { key, isLast: index === ids.length - 1 })));
    }
    assert.equal(chunks.join(""), STORY);
    assert.ok(!chunks.join("").includes("\ufffd"));
  });

  test("keeps streams apart by client request, row and sample", async () => {
    const instance = await instanceOf("postprocessing");
    const rocket = [...tokenizer.encode("🚀", PLAIN)];
    assert.ok(rocket.length > 1);
    const [first = 0, ...rest] = rocket;
    const streams = [
      { origin: {}, index: 0 },
      { origin: {}, index: 0 },
      { origin: {}, index: 3 },
    ];
    for (const { origin, index } of streams) {
      const start = [...chunk([first]), ints("SEQUENCE_INDEX", [index], [1, 1])];
      assert.deepEqual(textsOf(await run(instance, start, { key: origin, isLast: false })), [""]);
    }
    for (const { origin, index } of streams) {
      const end = [...chunk(rest), ints("SEQUENCE_INDEX", [index], [1, 1])];
      assert.deepEqual(textsOf(await run(instance, end, { key: origin, isLast: true })), ["🚀"]);
    }
  });

  test("gives what is left of a character at the end of a stream, and starts anew after it", async () => {
    const instance = await instanceOf("postprocessing");
    const [first = 0] = tokenizer.encode("🚀", PLAIN);
    const key = {};
    assert.deepEqual(textsOf(await run(instance, chunk([first]), { key, isLast: true })), ["\ufffd"]);
    assert.deepEqual(textsOf(await run(instance, chunk(tokenizer.encode("hi", PLAIN)), { key, isLast: true })), ["hi"]);
  });

  test("refuses lengths that do not go with the ids", async () => {
    const inputs = [ints("TOKENS_BATCH", [1, 2], [1, 1, 2]), ints("SEQUENCE_LENGTH", [1, 1], [1, 2])];
    await assert.rejects(run(await instanceOf("postprocessing"), inputs), /has 2 lengths, expected 1/);
  });
});

test("a GGUF file alone serves both halves", async () => {
  const path = fileURLToPath(new URL("../tests/parity/tokenizers/llama.gguf", EXAMPLES));
  const from = (name: string): ModelSource => {
    const source = sourceOf(name);
    const parameters = { ...source.config.parameters, tokenizer_dir: { string_value: path } };
    return { ...source, config: { ...source.config, parameters } };
  };
  const backend = createTokenizerBackend();
  const [pre, post] = await Promise.all(
    ["preprocessing", "postprocessing"].map(async (name) => {
      return (await backend.load(from(name))).createInstance({ name, kind: "KIND_CPU", deviceId: 0 });
    }),
  );
  assert.ok(pre && post);
  const found = summary(await run(pre, query("Hello world")));
  const ids = found.INPUT_ID?.[2] ?? [];
  assert.equal(ids[0], 1);
  assert.deepEqual(found.OUT_END_ID?.[2], [2]);
  assert.deepEqual(textsOf(await run(post, chunk(ids))), ["Hello world"]);
});

test("`load()` says where it looked for a tokenizer", async () => {
  const source = sourceOf("preprocessing");
  const broken = { ...source, modelFolder: "/nowhere/model", versionFolder: "/nowhere/model/1" };
  await assert.rejects(createTokenizerBackend().load(broken), (error) => {
    return (
      error instanceof ServerError &&
      /no tokenizer\.json and no GGUF file in \/.*language_model or \/.*; set parameter/.test(error.message)
    );
  });
});

function sourceOf(name: string): ModelSource {
  const folder = fileURLToPath(new URL(`model_repository/${name}`, EXAMPLES));
  const nothing = (): void => undefined;
  return {
    name,
    version: 1,
    config: parseModelConfigText(readFileSync(`${folder}/config.pbtxt`, "utf8"), "config.pbtxt"),
    modelFolder: folder,
    versionFolder: `${folder}/1`,
    settings: new Map(),
    log: { info: nothing, warn: nothing, error: nothing, verbose: nothing, table: nothing },
    models: { infer: () => assert.fail("calls no other model"), signature: () => assert.fail("looks at none") },
    metrics: { register: () => assert.fail("has no metrics of its own") },
  };
}

async function instanceOf(name: string): Promise<ModelInstance> {
  const model = await createTokenizerBackend().load(sourceOf(name));
  return model.createInstance({ name: `${name}_0`, kind: "KIND_CPU", deviceId: 0 });
}

interface RunOptions {
  readonly origin?: RequestOrigin;
  readonly signal?: AbortSignal;
}

function answer(
  instance: ModelInstance,
  inputs: readonly Tensor[],
  { origin = { key: {}, isLast: true }, signal = new AbortController().signal }: RunOptions = {},
): { execution: Promise<void> | undefined; outputs: Promise<readonly Tensor[]> } {
  let execution: Promise<void> | undefined;
  const outputs = new Promise<readonly Tensor[]>((resolve, reject) => {
    const batchSize = inputs[0]?.shape[0] ?? 1;
    const request = {
      modelName: "m",
      modelVersion: "",
      id: "",
      inputs,
      outputs: [],
      parameters: NO_PARAMETERS,
      sequence: NO_SEQUENCE,
      priority: 0,
      timeoutUs: 0,
      signal,
      origin,
      arrivalMs: 0,
    };
    const batch: Batch = {
      requests: [
        {
          request,
          batchSize,
          outputNames: [],
          respond: (response) => resolve(response.outputs),
          fail: reject,
          drained: () => Promise.resolve(),
        },
      ],
      batchSize,
      computeStarted: () => undefined,
      computeEnded: () => undefined,
    };
    execution = instance.execute(batch);
  });
  return { execution, outputs };
}

function run(instance: ModelInstance, inputs: readonly Tensor[], origin?: RequestOrigin): Promise<readonly Tensor[]> {
  return answer(instance, inputs, origin === undefined ? {} : { origin }).outputs;
}

function query(line: string): readonly Tensor[] {
  return [text("QUERY", [line], [1, 1]), ints("REQUEST_OUTPUT_LEN", [1], [1, 1])];
}

function chunk(ids: ArrayLike<number>): readonly Tensor[] {
  return [ints("TOKENS_BATCH", Array.from(ids), [1, 1, ids.length]), ints("SEQUENCE_LENGTH", [ids.length], [1, 1])];
}

function text(name: string, lines: readonly string[], shape: readonly number[]): Tensor {
  return { name, datatype: "BYTES", shape, data: packBytesElements(lines) };
}

function ints(name: string, values: readonly number[], shape: readonly number[]): Tensor {
  return { name, datatype: "INT32", shape, data: new Uint8Array(Int32Array.from(values).buffer) };
}

function textsOf(outputs: readonly Tensor[]): readonly string[] {
  return outputs.flatMap((output) => bytesElements(output).map((bytes) => Buffer.from(bytes).toString()));
}

function summary(
  outputs: readonly Tensor[],
): Record<string, readonly [Datatype, readonly number[], readonly number[]]> {
  return Object.fromEntries(
    outputs.map((tensor) => [tensor.name, [tensor.datatype, tensor.shape, [...intValues(tensor)]]]),
  );
}
