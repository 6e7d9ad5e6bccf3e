/**
 * The functions of libllama that Nereid calls: name, C signature and TypeScript type. Source: llama.h of llama.cpp
 * 0.5.0. libllama aborts the process on some wrong arguments, so callers check first. It knows no library path.
 */
import type { Address, NativeFunction, Pointer } from "../ffi.ts";
import type { SignatureTable } from "../ggml/functions.ts";

/** llama_model_params. Booleans are at the end, as in the header. */
export interface LlamaModelParams {
  readonly devices: Address | null;
  readonly tensor_buft_overrides: Address | null;
  readonly n_gpu_layers: number;
  readonly split_mode: number;
  readonly load_mode: number;
  readonly lazy_mode: number;
  readonly main_gpu: number;
  readonly tensor_split: Address | null;
  readonly progress_callback: Address | null;
  readonly progress_callback_user_data: Address | null;
  readonly kv_overrides: Address | null;
  readonly vocab_only: boolean;
  readonly check_tensors: boolean;
  readonly use_extra_bufts: boolean;
  readonly no_host: boolean;
  readonly no_alloc: boolean;
  readonly load_mtp: boolean;
}

/** llama_context_params. */
export interface LlamaContextParams {
  readonly n_ctx: number;
  readonly n_batch: number;
  readonly n_ubatch: number;
  readonly n_seq_max: number;
  readonly n_rs_seq: number;
  readonly n_outputs_max: number;
  readonly n_outputs_max_per_seq: number;
  readonly n_threads: number;
  readonly n_threads_batch: number;
  readonly ctx_type: number;
  readonly rope_scaling_type: number;
  readonly pooling_type: number;
  readonly attention_type: number;
  readonly flash_attn_type: number;
  readonly rope_freq_base: number;
  readonly rope_freq_scale: number;
  readonly yarn_ext_factor: number;
  readonly yarn_attn_factor: number;
  readonly yarn_beta_fast: number;
  readonly yarn_beta_slow: number;
  readonly yarn_orig_ctx: number;
  readonly defrag_thold: number;
  readonly cb_eval: Address | null;
  readonly cb_eval_user_data: Address | null;
  readonly type_k: number;
  readonly type_v: number;
  readonly abort_callback: Address | null;
  readonly abort_callback_data: Address | null;
  readonly embeddings: boolean;
  readonly offload_kqv: boolean;
  readonly no_perf: boolean;
  readonly op_offload: boolean;
  readonly swa_full: boolean;
  readonly kv_unified: boolean;
  readonly samplers: Address | null;
  readonly n_samplers: number;
  readonly ctx_other: Address | null;
}

/** llama_batch: addresses of arrays of `n_tokens`, which the caller keeps alive. */
export interface LlamaBatch {
  readonly n_tokens: number;
  readonly token: Address | null;
  readonly embd: Address | null;
  readonly pos: Address | null;
  readonly n_seq_id: Address | null;
  /** One address of a list of sequences for each token. */
  readonly seq_id: Address | null;
  readonly logits: Address | null;
}

export interface LlamaFunctions {
  version(): string;
  maxSequences(): number | bigint;
  backendInit(): void;
  logSet(callback: Address | null, user: null): void;
  modelDefaults(): LlamaModelParams;
  contextDefaults(): LlamaContextParams;
  /** Null when it fails; the log says why. */
  loadModel: NativeFunction<[path: string, params: LlamaModelParams], Address | null>;
  freeModel(model: Address): void;
  createContext: NativeFunction<[model: Address, params: LlamaContextParams], Address | null>;
  freeContext(context: Address): void;
  attachThreadpool(context: Address, threadpool: Address, forBatches: Address): void;
  setAbortCallback(context: Address, callback: Address, data: Pointer): void;

  vocabulary(model: Address): Address;
  vocabularyType(vocabulary: Address): number;
  numTokens(vocabulary: Address): number;
  isEndOfGeneration(vocabulary: Address, token: number): boolean;
  /** -1: there is none. */
  beginToken(vocabulary: Address): number;
  endToken(vocabulary: Address): number;
  separatorToken(vocabulary: Address): number;
  addsBegin(vocabulary: Address): boolean;
  addsEnd(vocabulary: Address): boolean;
  addsSeparator(vocabulary: Address): boolean;
  /** Null: the file has no template of that name. */
  chatTemplate(model: Address, name: string): string | null;
  trainedContext(model: Address): number;
  embeddingLength(model: Address): number;
  outputLength(model: Address): number;
  numClasses(model: Address): number;
  modelBytes(model: Address): number | bigint;
  numParameters(model: Address): number | bigint;
  /** Writes a text and its NUL; gives its length. */
  describe(model: Address, text: Uint8Array, size: number): number;
  hasEncoder(model: Address): boolean;
  hasDecoder(model: Address): boolean;
  isRecurrent(model: Address): boolean;
  isHybrid(model: Address): boolean;
  isDiffusion(model: Address): boolean;

  /** Null: the context keeps nothing between calls. */
  memory(context: Address): Address | null;
  poolingType(context: Address): number;
  /** Ends negative: of the whole sequence. False: a part cannot be removed, and nothing was. */
  removeFrom(memory: Address, sequence: number, from: number, to: number): boolean;
  copySequence(memory: Address, from: number, to: number, first: number, end: number): void;
  clearMemory(memory: Address, clearsData: boolean): void;

  decode: NativeFunction<[context: Address, batch: LlamaBatch], number>;
  encode: NativeFunction<[context: Address, batch: LlamaBatch], number>;
  logitsOf(context: Address, index: number): Address | null;
  embeddingsOf(context: Address, index: number): Address | null;
  sequenceEmbeddings(context: Address, sequence: number): Address | null;

  loadAdapter: NativeFunction<[model: Address, path: string], Address | null>;
  freeAdapter(adapter: Address): void;
  setAdapters(context: Address, adapters: Pointer, count: number, scales: Pointer): number;

  tokenize(
    vocabulary: Address,
    text: Uint8Array,
    length: number,
    tokens: Int32Array,
    capacity: number,
    addsSpecial: boolean,
    parsesSpecial: boolean,
  ): number;
  tokenToPiece(
    vocabulary: Address,
    token: number,
    text: Uint8Array,
    length: number,
    strip: number,
    showsSpecial: boolean,
  ): number;
}

export const MODEL_PARAMS: Readonly<Record<keyof LlamaModelParams, string>> = {
  devices: "void*",
  tensor_buft_overrides: "void*",
  n_gpu_layers: "int32_t",
  split_mode: "int32_t",
  load_mode: "int32_t",
  lazy_mode: "int32_t",
  main_gpu: "int32_t",
  tensor_split: "void*",
  progress_callback: "void*",
  progress_callback_user_data: "void*",
  kv_overrides: "void*",
  vocab_only: "bool",
  check_tensors: "bool",
  use_extra_bufts: "bool",
  no_host: "bool",
  no_alloc: "bool",
  load_mtp: "bool",
};

export const CONTEXT_PARAMS: Readonly<Record<keyof LlamaContextParams, string>> = {
  n_ctx: "uint32_t",
  n_batch: "uint32_t",
  n_ubatch: "uint32_t",
  n_seq_max: "uint32_t",
  n_rs_seq: "uint32_t",
  n_outputs_max: "uint32_t",
  n_outputs_max_per_seq: "uint32_t",
  n_threads: "int32_t",
  n_threads_batch: "int32_t",
  ctx_type: "int32_t",
  rope_scaling_type: "int32_t",
  pooling_type: "int32_t",
  attention_type: "int32_t",
  flash_attn_type: "int32_t",
  rope_freq_base: "float",
  rope_freq_scale: "float",
  yarn_ext_factor: "float",
  yarn_attn_factor: "float",
  yarn_beta_fast: "float",
  yarn_beta_slow: "float",
  yarn_orig_ctx: "uint32_t",
  defrag_thold: "float",
  cb_eval: "void*",
  cb_eval_user_data: "void*",
  type_k: "int32_t",
  type_v: "int32_t",
  abort_callback: "void*",
  abort_callback_data: "void*",
  embeddings: "bool",
  offload_kqv: "bool",
  no_perf: "bool",
  op_offload: "bool",
  swa_full: "bool",
  kv_unified: "bool",
  samplers: "void*",
  n_samplers: "size_t",
  ctx_other: "void*",
};

export const BATCH: Readonly<Record<keyof LlamaBatch, string>> = {
  n_tokens: "int32_t",
  token: "void*",
  embd: "void*",
  pos: "void*",
  n_seq_id: "void*",
  seq_id: "void*",
  logits: "void*",
};

/** Structures are named here and resolved by the opener. */
export const LLAMA_SIGNATURES: SignatureTable<LlamaFunctions> = {
  version: ["llama_version", "str", ""],
  maxSequences: ["llama_max_parallel_sequences", "size_t", ""],
  backendInit: ["llama_backend_init", "void", ""],
  logSet: ["llama_log_set", "void", "void* void*"],
  modelDefaults: ["llama_model_default_params", "LlamaModelParams", ""],
  contextDefaults: ["llama_context_default_params", "LlamaContextParams", ""],
  loadModel: ["llama_model_load_from_file", "void*", "str LlamaModelParams"],
  freeModel: ["llama_model_free", "void", "void*"],
  createContext: ["llama_init_from_model", "void*", "void* LlamaContextParams"],
  freeContext: ["llama_free", "void", "void*"],
  attachThreadpool: ["llama_attach_threadpool", "void", "void* void* void*"],
  setAbortCallback: ["llama_set_abort_callback", "void", "void* void* void*"],
  vocabulary: ["llama_model_get_vocab", "void*", "void*"],
  vocabularyType: ["llama_vocab_type", "int", "void*"],
  numTokens: ["llama_vocab_n_tokens", "int32_t", "void*"],
  isEndOfGeneration: ["llama_vocab_is_eog", "bool", "void* int32_t"],
  beginToken: ["llama_vocab_bos", "int32_t", "void*"],
  endToken: ["llama_vocab_eos", "int32_t", "void*"],
  separatorToken: ["llama_vocab_sep", "int32_t", "void*"],
  addsBegin: ["llama_vocab_get_add_bos", "bool", "void*"],
  addsEnd: ["llama_vocab_get_add_eos", "bool", "void*"],
  addsSeparator: ["llama_vocab_get_add_sep", "bool", "void*"],
  chatTemplate: ["llama_model_chat_template", "str", "void* str"],
  trainedContext: ["llama_model_n_ctx_train", "int32_t", "void*"],
  embeddingLength: ["llama_model_n_embd", "int32_t", "void*"],
  outputLength: ["llama_model_n_embd_out", "int32_t", "void*"],
  numClasses: ["llama_model_n_cls_out", "uint32_t", "void*"],
  modelBytes: ["llama_model_size", "uint64_t", "void*"],
  numParameters: ["llama_model_n_params", "uint64_t", "void*"],
  describe: ["llama_model_desc", "int32_t", "void* void* size_t"],
  hasEncoder: ["llama_model_has_encoder", "bool", "void*"],
  hasDecoder: ["llama_model_has_decoder", "bool", "void*"],
  isRecurrent: ["llama_model_is_recurrent", "bool", "void*"],
  isHybrid: ["llama_model_is_hybrid", "bool", "void*"],
  isDiffusion: ["llama_model_is_diffusion", "bool", "void*"],
  memory: ["llama_get_memory", "void*", "void*"],
  poolingType: ["llama_pooling_type", "int", "void*"],
  removeFrom: ["llama_memory_seq_rm", "bool", "void* int32_t int32_t int32_t"],
  copySequence: ["llama_memory_seq_cp", "void", "void* int32_t int32_t int32_t int32_t"],
  clearMemory: ["llama_memory_clear", "void", "void* bool"],
  decode: ["llama_decode", "int32_t", "void* LlamaBatch"],
  encode: ["llama_encode", "int32_t", "void* LlamaBatch"],
  logitsOf: ["llama_get_logits_ith", "void*", "void* int32_t"],
  embeddingsOf: ["llama_get_embeddings_ith", "void*", "void* int32_t"],
  sequenceEmbeddings: ["llama_get_embeddings_seq", "void*", "void* int32_t"],
  loadAdapter: ["llama_adapter_lora_init", "void*", "void* str"],
  freeAdapter: ["llama_adapter_lora_free", "void", "void*"],
  setAdapters: ["llama_set_adapters_lora", "int32_t", "void* void* size_t void*"],
  tokenize: ["llama_tokenize", "int32_t", "void* void* int32_t void* int32_t bool bool"],
  tokenToPiece: ["llama_token_to_piece", "int32_t", "void* int32_t void* int32_t int32_t bool"],
};
