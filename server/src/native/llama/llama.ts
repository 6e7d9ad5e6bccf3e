/**
 * Opens libllama beside ggml, and verifies its release and the layout of its structures. Source: llama.h of llama.cpp
 * 0.5.0. Knows no model.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Callback, callback, openLibrary, structType } from "../ffi.ts";
import { bindAll, findGgmlDirectory, type Ggml, openGgml } from "../ggml/ggml.ts";
import {
  BATCH,
  CONTEXT_PARAMS,
  LLAMA_SIGNATURES,
  type LlamaContextParams,
  type LlamaFunctions,
  type LlamaModelParams,
  MODEL_PARAMS,
} from "./functions.ts";

export interface Llama {
  readonly directory: string;
  readonly version: string;
  readonly ggml: Ggml;
  readonly functions: LlamaFunctions;
  /** Runs `work` and gives what it returned with the errors that libllama logged meanwhile, one text a line. */
  logged<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly errors: readonly string[] }>;
}

/** Signatures and layouts are those of this release; others have moved fields before. */
const VERSION_PATTERN = /^0\.5\.0(-dev)?$/;
/** ggml_log_level of ggml.h. */
const LOG_ERROR = 4;
const LOG_CONTINUED = 5;
/** Lines that are kept for a message. */
const MAX_LINES = 6;

// Named once per process: koffi's type names are global.
structType("LlamaModelParams", MODEL_PARAMS);
structType("LlamaContextParams", CONTEXT_PARAMS);
structType("LlamaBatch", BATCH);

/** Defaults of the release, by which a moved field shows. */
const MODEL_DEFAULTS: Readonly<Partial<LlamaModelParams>> = {
  devices: null,
  n_gpu_layers: -1,
  split_mode: 1,
  load_mode: -1,
  lazy_mode: 1,
  kv_overrides: null,
  vocab_only: false,
  use_extra_bufts: true,
  no_alloc: false,
};
const CONTEXT_DEFAULTS: Readonly<Partial<LlamaContextParams>> = {
  n_ctx: 512,
  n_batch: 2048,
  n_ubatch: 512,
  n_seq_max: 1,
  n_outputs_max_per_seq: 1,
  pooling_type: -1,
  flash_attn_type: -1,
  yarn_ext_factor: -1,
  defrag_thold: -1,
  type_k: 1,
  type_v: 1,
  embeddings: false,
  offload_kqv: true,
  no_perf: true,
  op_offload: true,
  swa_full: true,
  kv_unified: false,
  samplers: null,
  n_samplers: 0,
  ctx_other: null,
};

/** One log for the process: libllama has a single callback. */
let log: { readonly callback: Callback; readonly lines: string[] } | undefined;

/** Loads libllama from the folder of ggml. @throws Error naming what is missing or of another release */
export function openLlama(directory: string = findGgmlDirectory()): Llama {
  const ggml = openGgml(directory);
  const library = openLibrary(join(directory, llamaFile(directory)));
  if (!library.has("llama_version")) throw wrongRelease(directory, "a release without llama_version");
  const functions = bindAll(library, LLAMA_SIGNATURES);
  checkRelease(functions, directory);
  log ??= createLog();
  const { lines } = log;
  functions.logSet(log.callback.address, null);
  functions.backendInit();
  return {
    directory,
    version: functions.version(),
    ggml,
    functions,
    async logged(work) {
      lines.length = 0;
      const result = await work();
      const errors = lines.map((line) => line.trim()).filter((line) => line !== "");
      return { result, errors };
    },
  };
}

function llamaFile(directory: string): string {
  const file = readdirSync(directory).find((name) => /^libllama(\.[a-z]+)?(\.v[0-9.]+)?\.so$/.test(name));
  if (file !== undefined) return file;
  throw new Error(`${directory}: expected libllama.so, which computes models of the llama.cpp engine, beside ggml`);
}

function checkRelease(functions: LlamaFunctions, directory: string): void {
  const version = functions.version();
  if (!VERSION_PATTERN.test(version)) throw wrongRelease(directory, version);
  expectDefaults("llama_model_params", functions.modelDefaults(), MODEL_DEFAULTS, directory);
  expectDefaults("llama_context_params", functions.contextDefaults(), CONTEXT_DEFAULTS, directory);
}

function expectDefaults<T>(title: string, actual: T, expected: Partial<T>, directory: string): void {
  for (const [key, value] of Object.entries(expected)) {
    const got = (actual as Readonly<Record<string, unknown>>)[key];
    if (got === value) continue;
    throw wrongRelease(directory, `${title}.${key} = ${String(got)}, where that release has ${String(value)}`);
  }
}

function wrongRelease(directory: string, got: string): Error {
  return new Error(`libllama in ${directory}: expected llama.cpp 0.5.0, got ${got}; install the pinned package`);
}

/** Keeps the last errors. Lines of other levels are many and for developers of models. */
function createLog(): { readonly callback: Callback; readonly lines: string[] } {
  const lines: string[] = [];
  let isError = false;
  const take = (level: number, text: string): void => {
    if (level !== LOG_CONTINUED) isError = level === LOG_ERROR;
    if (!isError) return;
    lines.push(text);
    if (lines.length > MAX_LINES) lines.shift();
  };
  return { callback: callback("void", ["int", "str", "void*"], take), lines };
}
