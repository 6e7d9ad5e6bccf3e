/**
 * Writes the tiny models of `models/` with weights by chance, and what libllama computes from them one sequence at a time,
 * without batches, copies of sequences or any code of the engine. Run it again after a new release of libllama:
 * node --conditions=nereid-source --import ./tools/loader/register.mjs tests/llama-cpp/record.ts
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LlamaTokenBatch } from "../../server/src/device/llama/llama-batch.ts";
import { POOLINGS } from "../../server/src/device/llama/llama-context.ts";
import { LlamaModel } from "../../server/src/device/llama/llama-model.ts";
import {
  F32,
  type GgufField,
  type GgufTensorField,
  ggufBytes,
  STRING,
} from "../../server/src/formats/gguf/gguf-writer.test-support.ts";
import { type Address, callback, copyFromMemory, openLibrary, structType } from "../../server/src/native/ffi.ts";
import { type Llama, openLlama } from "../../server/src/native/llama/llama.ts";
import { fieldsOf, RECORDED, type TinyModel } from "./architectures.ts";

const FOLDER = fileURLToPath(new URL("models/", import.meta.url));
/** ggml_type of the tensors that libllama asks for. */
const TYPE_F32 = 0;
const METADATA_ONLY = structType("GgufInitParams", { no_alloc: "bool", ctx: "void*" });
const NUM_PROMPT_TOKENS = 24;
const NUM_OUTPUT_TOKENS = 12;
const TOP = 5;
/** The model that has an adapter. */
const ADAPTED = "starcoder2";
const MIN_MARGIN = 0.02;
const MAX_ATTEMPTS = 200;

/** Numbers in [0, 1) from a seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function seedOf(name: string): number {
  let hash = 2166136261;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 16777619);
  return hash;
}

/** Norms near 1, decays below 0, matrices by their width. */
function valuesOf(name: string, count: number, width: number): Float32Array {
  const random = randomFrom(seedOf(name));
  const scale = name.includes("norm") ? 0.2 : 1.7 / Math.sqrt(Math.max(4, Math.min(width, 64)));
  const centre = name.includes("norm") && name.endsWith("weight") ? 1 : 0;
  return Float32Array.from({ length: count }, () => {
    const value = centre + scale * (random() + random() + random() - 1.5) * 2;
    return name.includes("ssm_a") ? -Math.abs(value) - 0.1 : value;
  });
}

export interface Maker {
  readonly llama: Llama;
  /** Writes a model of the architecture that the metadata names. */
  readonly make: (fields: readonly GgufField[], target: string, optional?: readonly string[]) => Promise<Address>;
}

/** llama_model_init_from_user asks for the values of each tensor, whose shapes the architecture decides. */
export function createMaker(llama: Llama): Maker {
  const base = openLibrary(join(llama.directory, "libggml-base.so"));
  const library = openLibrary(join(llama.directory, "libllama.v0.5.0.so"));
  const readMetadata = base.func<[string, object], Address | null>("gguf_init_from_file", "void*", [
    "str",
    METADATA_ONLY,
  ]);
  const nameOf = base.func<[Address], string>("ggml_get_name", "str", ["void*"]);
  const countOf = base.func<[Address], bigint | number>("ggml_nelements", "int64_t", ["void*"]);
  const setTensor = base.func<[Address, Float32Array, number, number], void>("ggml_backend_tensor_set", "void", [
    ...["void*", "void*", "size_t", "size_t"],
  ]);
  const initialise = library.func<[Address, Address, null, object], Address | null>(
    "llama_model_init_from_user",
    "void*",
    ["void*", "void*", "void*", "LlamaModelParams"],
  );
  const tensors: GgufTensorField[] = [];
  const fill = callback<[Address, null]>("void", ["void*", "void*"], (tensor) => {
    const head = new Int32Array(4);
    copyFromMemory(new Uint8Array(head.buffer), tensor);
    const all = new BigInt64Array(4);
    copyFromMemory(new Uint8Array(all.buffer), tensor + 16n);
    const name = nameOf(tensor);
    if (head[0] !== TYPE_F32) throw new Error(`${name}: expected F32, got type ${head[0]}`);
    const values = valuesOf(name, Number(countOf(tensor)), Number(all[0]));
    setTensor(tensor, values, 0, values.byteLength);
    const sizes = [...all].slice(0, 4 - [...all].reverse().findIndex((size) => size !== 1n) || 1);
    tensors.push({ name, sizes, type: TYPE_F32, data: new Uint8Array(values.buffer) });
  });
  const tryMake = async (
    bytes: Uint8Array,
    target: string,
  ): Promise<{ model: Address | null; errors: readonly string[] }> => {
    writeFileSync(target, bytes);
    const gguf = readMetadata(target, { no_alloc: true, ctx: null });
    if (gguf === null) throw new Error(`${target}: libllama cannot read the metadata`);
    const { result: model, errors } = await llama.logged(async () =>
      initialise(gguf, fill.address, null, llama.functions.modelDefaults()),
    );
    return { model, errors };
  };
  return {
    llama,
    async make(fields, target, optional = []) {
      const first = await tryMake(ggufBytes({ fields, tensors: placeholders(optional, 0) }), target);
      // The library compares its number of tensors with that of the file: the refusal tells it.
      const count = Number(/expected \d+, got (\d+)/.exec(first.errors.join("; "))?.[1] ?? 0);
      tensors.length = 0;
      const bytes = ggufBytes({ fields, tensors: placeholders(optional, count - optional.length) });
      const { model, errors } = await tryMake(bytes, target);
      if (model === null) throw new Error(`${target}: libllama cannot make it: ${errors.join("; ")}`);
      llama.functions.freeModel(model);
      writeFileSync(
        target,
        ggufBytes({ fields, tensors: [...new Map(tensors.map((each) => [each.name, each])).values()] }),
      );
      return (await LlamaModel.load({ path: target, llama })).address;
    },
  };
}

function placeholders(names: readonly string[], count: number): GgufTensorField[] {
  const numbered = Array.from({ length: Math.max(0, count) }, (_, i) => `placeholder.${i}`);
  return [...names, ...numbered].map((name) => ({ name, sizes: [8], type: TYPE_F32, data: new Uint8Array(32) }));
}

export interface RecordedRun {
  readonly prompt: readonly number[];
  readonly output: readonly number[];
  /** For each output token the largest logits of its row: [token id, logit]. */
  readonly top: readonly (readonly (readonly [id: number, logit: number])[])[];
}

/** Prompts for which no other token comes close to a chosen one: other kernels round otherwise. */
export function recordRuns(
  llama: Llama,
  model: Address,
  tiny: TinyModel,
  minMargin: number = MIN_MARGIN,
): readonly RecordedRun[] {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const runs = promptsOf(tiny, attempt).map((prompt) => runAlone(llama, model, prompt));
    const margins = runs.flatMap(({ top }) => top.map(([first, second]) => (first?.[1] ?? 0) - (second?.[1] ?? 0)));
    if (Math.min(...margins) >= minMargin) return runs;
  }
  throw new Error(`${tiny.architecture}: no prompts with margins of ${MIN_MARGIN} in ${MAX_ATTEMPTS} attempts`);
}

/** One token a call, in a context for one sequence. */
function runAlone({ functions }: Llama, model: Address, prompt: readonly number[], adapter?: Address): RecordedRun {
  const params = { ...functions.contextDefaults(), n_ctx: 256, type_k: TYPE_F32, type_v: TYPE_F32, n_threads: 1 };
  const context = functions.createContext(model, { ...params, n_threads_batch: 1, flash_attn_type: 0 });
  if (context === null) throw new Error("libllama cannot make a context");
  if (adapter !== undefined) functions.setAdapters(context, BigUint64Array.of(adapter), 1, Float32Array.of(1));
  const vocabSize = functions.numTokens(functions.vocabulary(model));
  const row = new Float32Array(vocabSize);
  const batch = new LlamaTokenBatch(1);
  const decode = (token: number, position: number): void => {
    batch.clear();
    batch.add(token, position, 0, true);
    if (functions.decode(context, batch.asStruct()) !== 0) throw new Error("libllama cannot decode");
    const logits = functions.logitsOf(context, 0);
    if (logits === null) throw new Error("libllama gave no logits");
    copyFromMemory(new Uint8Array(row.buffer), logits);
  };
  for (const [position, token] of prompt.entries()) decode(token, position);
  const output: number[] = [];
  const top: [number, number][][] = [];
  while (output.length < NUM_OUTPUT_TOKENS) {
    const best = [...row.entries()].sort(([, a], [, b]) => b - a).slice(0, TOP);
    top.push(best.map(([id, logit]) => [id, Number(logit.toFixed(5))]));
    const token = best[0]?.[0] ?? 0;
    output.push(token);
    decode(token, prompt.length + output.length - 1);
  }
  functions.freeContext(context);
  return { prompt, output, top };
}

/** Two prompts that begin alike, and a short one. */
function promptsOf(model: TinyModel, attempt: number): readonly (readonly number[])[] {
  const random = randomFrom(seedOf(`${model.architecture} ${attempt}`));
  const tokens = (count: number): number[] => Array.from({ length: count }, () => 3 + Math.floor(random() * 94));
  const shared = tokens(NUM_PROMPT_TOKENS);
  return [shared, [...shared.slice(0, 17), ...tokens(9)], tokens(3)].map((each) => [1, ...each]);
}

const TEXTS: readonly string[] = ["hello", "a b c", "some other text, which is longer", "hello"];

/** One text a call: its mean, and the score of a pair with the first text. */
function recordVectors({ functions }: Llama, model: Address): void {
  const vocabulary = functions.vocabulary(model);
  const tokensOf = (text: string): number[] => {
    const bytes = Buffer.from(text);
    const tokens = new Int32Array(64);
    return [...tokens.subarray(0, functions.tokenize(vocabulary, bytes, bytes.length, tokens, 64, false, false))];
  };
  const encode = (tokens: readonly number[], pooling: number, width: number): number[] => {
    const defaults = { ...functions.contextDefaults(), n_ctx: 64, n_ubatch: 64, n_batch: 64, n_threads: 1 };
    const context = functions.createContext(model, {
      ...defaults,
      embeddings: true,
      pooling_type: pooling,
      flash_attn_type: 0,
    });
    if (context === null) throw new Error("libllama cannot make a context");
    const batch = new LlamaTokenBatch(64);
    for (const [position, token] of tokens.entries()) batch.add(token, position, 0, true);
    const status = functions.encode(context, batch.asStruct());
    const address = functions.sequenceEmbeddings(context, 0);
    if (status !== 0 || address === null) throw new Error("libllama cannot encode");
    const row = new Float32Array(width);
    copyFromMemory(new Uint8Array(row.buffer), address);
    functions.freeContext(context);
    return [...row].map((value) => Number(value.toFixed(6)));
  };
  const [CLS, SEP] = [2, 3];
  const rows = TEXTS.map((text) => encode([CLS, ...tokensOf(text), SEP], POOLINGS.mean, 32));
  const first = tokensOf(TEXTS[0] ?? "");
  const scores = TEXTS.map((text) => encode([CLS, ...first, SEP, ...tokensOf(text)], POOLINGS.rank, 1));
  writeFileSync(join(FOLDER, "vectors.json"), `${JSON.stringify({ texts: TEXTS, rows, scores })}\n`);
}

/** Changes the output of attention and a matrix of the MLP. Source: convert_lora_to_gguf.py of llama.cpp 0.5.0. */
async function recordAdapted(
  llama: Llama,
  address: Address,
  runs: readonly RecordedRun[],
): Promise<readonly RecordedRun[]> {
  const path = join(FOLDER, `${ADAPTED}-lora.gguf`);
  const rank = 4;
  const matrix = (name: string, width: number, rows: number): GgufTensorField => {
    const values = valuesOf(name, width * rows, width);
    return { name, sizes: [width, rows], type: TYPE_F32, data: new Uint8Array(values.buffer) };
  };
  const tensors = [
    matrix("blk.0.attn_output.weight.lora_a", 32, rank),
    matrix("blk.0.attn_output.weight.lora_b", rank, 32),
    matrix("blk.1.ffn_up.weight.lora_a", 32, rank),
    matrix("blk.1.ffn_up.weight.lora_b", rank, 48),
  ];
  const fields: GgufField[] = [
    ["general.architecture", STRING, ADAPTED],
    ["general.type", STRING, "adapter"],
    ["adapter.type", STRING, "lora"],
    ["adapter.lora.alpha", F32, 8],
  ];
  writeFileSync(path, ggufBytes({ fields, tensors }));
  const { result: adapter, errors } = await llama.logged(async () => llama.functions.loadAdapter(address, path));
  if (adapter === null) throw new Error(`${path}: libllama cannot load it: ${errors.join("; ")}`);
  return runs.map(({ prompt }) => runAlone(llama, address, prompt, adapter));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const maker = createMaker(openLlama());
  const expected: Record<string, readonly RecordedRun[]> = {};
  for (const [name, tiny] of Object.entries(RECORDED)) {
    const model = await maker.make(fieldsOf(tiny), join(FOLDER, `${name}.gguf`), tiny.optional);
    if (tiny.tokenizer === "wordpiece") recordVectors(maker.llama, model);
    else expected[name] = recordRuns(maker.llama, model, tiny);
    if (name === ADAPTED) expected[`${name}-lora`] = await recordAdapted(maker.llama, model, expected[name] ?? []);
    process.stdout.write(`${name}\n`);
  }
  writeFileSync(join(FOLDER, "expected.json"), `${JSON.stringify(expected)}\n`);
}
