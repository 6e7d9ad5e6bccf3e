/**
 * The ggml functions that Nereid calls: name, C signature and TypeScript type, for ggml 0.25. Source: ggml.h and
 * ggml-backend.h. ggml aborts the process on a wrong argument, so callers check shapes first. It knows no library path.
 */

import type { Address, NativeFunction, Pointer } from "../ffi.ts";
import { GGML_BLOCK_NAMES, type GgmlBlockType } from "./block-types.ts";

/** Block types: elements share scales in blocks. */
export type { GgmlBlockType };

/** C name, result and parameters of a function; parameters are separated by spaces. */
export type Signature = readonly [symbol: string, result: string, parameters: string];
export type SignatureTable<Functions> = Readonly<Record<keyof Functions, Signature>>;

/** From libggml-base: contexts, tensors, graphs, buffers. */
export interface GgmlBase {
  version(): string;
  tensorOverhead(): number;
  graphOverhead(size: number, withGradients: boolean): number;
  typeName(type: number): string;
  typeSize(type: number): number;
  init(params: { mem_size: number; mem_buffer: null; no_alloc: boolean }): Address | null;
  reset(context: Address): void;
  free(context: Address): void;
  logSet(callback: Address | null, user: null): void;
  newTensor2d(context: Address, type: number, ne0: number, ne1: number): Address;
  newTensor1d(context: Address, type: number, ne0: number): Address;
  newTensor3d(context: Address, type: number, ne0: number, ne1: number, ne2: number): Address;
  getData(tensor: Address): Address | null;
  setInput(tensor: Address): void;
  setOutput(tensor: Address): void;
  newGraph(context: Address, size: number, withGradients: boolean): Address;
  expand(graph: Address, tensor: Address): void;
  numNodes(graph: Address): number;
  add(context: Address, a: Address, b: Address): Address;
  /** Adds `b` to the part of `a` at an offset, with row lengths in bytes; returns the changed `a`. */
  accInplace(context: Address, a: Address, b: Address, nb1: number, nb2: number, nb3: number, offset: number): Address;
  mul(context: Address, a: Address, b: Address): Address;
  mulMat(context: Address, a: Address, b: Address): Address;
  rmsNorm(context: Address, a: Address, epsilon: number): Address;
  norm(context: Address, a: Address, epsilon: number): Address;
  div(context: Address, a: Address, b: Address): Address;
  scale(context: Address, a: Address, factor: number): Address;
  scaleBias(context: Address, a: Address, factor: number, bias: number): Address;
  tanh(context: Address, a: Address): Address;
  sigmoid(context: Address, a: Address): Address;
  silu(context: Address, a: Address): Address;
  relu(context: Address, a: Address): Address;
  clamp(context: Address, a: Address, min: number, max: number): Address;
  /** A copy whose elements follow each other. */
  cont(context: Address, a: Address): Address;
  concat(context: Address, a: Address, b: Address, dimension: number): Address;
  view1d(context: Address, a: Address, ne0: number, offset: number): Address;
  geluErf(context: Address, a: Address): Address;
  gegluErf(context: Address, a: Address): Address;
  swiglu(context: Address, a: Address): Address;
  /** silu(a) * b */
  swigluSplit(context: Address, a: Address, b: Address): Address;
  /** a sigmoid(alpha a) (b + 1), with a at most and b within `limit`. */
  swigluOai(context: Address, a: Address, b: Address, alpha: number, limit: number): Address;
  /** Adds to column [i, j] of `a` the column of `b` that `ids` selects for it. */
  addId(context: Address, a: Address, b: Address, ids: Address): Address;
  softMax(context: Address, a: Address): Address;
  /** softmax(a scale + mask), the mask the same for each matrix of `a`. */
  softMaxExt(context: Address, a: Address, mask: Address | null, scale: number, maxBias: number): Address;
  /** A view with its dimensions in another order. */
  permute(context: Address, a: Address, axis0: number, axis1: number, axis2: number, axis3: number): Address;
  /** Column indices of the `count` largest elements of each row, largest first: a view of the full argsort. */
  argsortTopK(context: Address, a: Address, count: number): Address;
  sumRows(context: Address, a: Address): Address;
  /** Multiplies `b` by the matrices of `a` selected by `ids` (mixture of experts). */
  mulMatId(context: Address, a: Address, b: Address, ids: Address): Address;
  getRows(context: Address, a: Address, ids: Address): Address;
  setRows(context: Address, a: Address, rows: Address, ids: Address): Address;
  /** Copies `a` into `b`; the result is a view of `b`. */
  copy(context: Address, a: Address, b: Address): Address;
  reshape2d(context: Address, a: Address, ne0: number, ne1: number): Address;
  reshape3d(context: Address, a: Address, ne0: number, ne1: number, ne2: number): Address;
  view2d(context: Address, a: Address, ne0: number, ne1: number, nb1: number, offset: number): Address;
  view3d(
    context: Address,
    a: Address,
    ne0: number,
    ne1: number,
    ne2: number,
    nb1: number,
    nb2: number,
    offset: number,
  ): Address;
  view4d(
    context: Address,
    a: Address,
    ne0: number,
    ne1: number,
    ne2: number,
    ne3: number,
    nb1: number,
    nb2: number,
    nb3: number,
    offset: number,
  ): Address;
  reshape4d(context: Address, a: Address, ne0: number, ne1: number, ne2: number, ne3: number): Address;
  /** `a` repeated until it has these sizes. */
  repeat4d(context: Address, a: Address, ne0: number, ne1: number, ne2: number, ne3: number): Address;
  /** A view with the first two dimensions exchanged. */
  transpose(context: Address, a: Address): Address;
  softplus(context: Address, a: Address): Address;
  sqrt(context: Address, a: Address): Address;
  /** exp(a) - 1 below 0. */
  elu(context: Address, a: Address): Address;
  /** Causal convolution of each row of [inputs, channels, sequences] with a row of `kernels`; [channels, tokens, sequences]. */
  ssmConv(context: Address, inputs: Address, kernels: Address): Address;
  /** Mamba-2's scan: outputs of all tokens, and behind them the last `numSnapshots` states of the sequences `ids`. */
  ssmScan(
    context: Address,
    states: Address,
    x: Address,
    dt: Address,
    decay: Address,
    b: Address,
    c: Address,
    ids: Address,
    numSnapshots: number,
  ): Address;
  /** The gated delta rule: outputs of all tokens, and behind them the last `numSnapshots` states of each sequence. */
  gatedDeltaNet(
    context: Address,
    q: Address,
    k: Address,
    v: Address,
    logDecay: Address,
    beta: Address,
    states: Address,
    numSnapshots: number,
  ): Address;
  ropeExt(
    context: Address,
    a: Address,
    positions: Address,
    frequencyFactors: Address | null,
    numDims: number,
    mode: number,
    originalContext: number,
    frequencyBase: number,
    frequencyScale: number,
    extFactor: number,
    attentionFactor: number,
    betaFast: number,
    betaSlow: number,
  ): Address;
  /**
   * Four positions per row, one list after the other; `sections` has the number of frequencies of each (multimodal
   * RoPE).
   */
  ropeMulti(
    context: Address,
    a: Address,
    positions: Address,
    frequencyFactors: Address | null,
    numDims: number,
    sections: Pointer,
    mode: number,
    originalContext: number,
    frequencyBase: number,
    frequencyScale: number,
    extFactor: number,
    attentionFactor: number,
    betaFast: number,
    betaSlow: number,
  ): Address;
  flashAttention(
    context: Address,
    q: Address,
    k: Address,
    v: Address,
    mask: Address | null,
    scale: number,
    maxBias: number,
    softcap: number,
  ): Address;
  /** Gives an attention node sinks: a logit for each head. */
  addSinks(attention: Address, sinks: Address): void;
  setAccumulator(tensor: Address, precision: number): boolean;
  bf16ToF32(from: Pointer, to: Pointer, count: number): void;
  f16ToF32(from: Pointer, to: Pointer, count: number): void;
  f32ToF16(from: Pointer, to: Pointer, count: number): void;
  f32ToBf16(from: Pointer, to: Pointer, count: number): void;
  /** Elements that share a scale: rows are whole blocks. */
  blockSize(type: number): number;
  /**
   * Returns the bytes written. `rowLength` is a multiple of the block size; `importance` weighs the columns, null for
   * equal weights.
   */
  quantizeChunk(
    type: number,
    from: Pointer,
    to: Pointer,
    start: number,
    numRows: number,
    rowLength: number,
    importance: null,
  ): number;
  allocateContext(context: Address, bufferType: Address): Address | null;
  bufferFree(buffer: Address): void;
  bufferSize(buffer: Address): number;
  bufferBase(buffer: Address): Address | null;
  tensorSet(tensor: Address, data: Pointer, offset: number, size: number): void;
  tensorGet(tensor: Address, data: Pointer, offset: number, size: number): void;
  deviceRegistry(device: Address): Address | null;
  /** enum ggml_backend_dev_type. */
  deviceType(device: Address): number;
  deviceDescription(device: Address): string;
  /** Writes bytes that are free, and all. */
  deviceMemory(device: Address, free: BigUint64Array, total: BigUint64Array): void;
  deviceBufferType(device: Address): Address | null;
  procAddress(registry: Address, name: string): Address | null;
  supportsOp(device: Address, op: Address): boolean;
  backendFree(backend: Address): void;
  /** A node computed by a C function `work`, which reads `args` and writes f32 [ne1, ne0]. `args`: tensor addresses. */
  custom(
    context: Address,
    type: number,
    ne0: number,
    ne1: number,
    ne2: number,
    ne3: number,
    args: Pointer,
    numArgs: number,
    work: Address,
    numTasks: number,
    user: null,
  ): Address;
  isContiguous(tensor: Address): boolean;
  readonly compute: NativeFunction<[backend: Address, graph: Address], number>;
  allocatorNew(bufferType: Address): Address | null;
  allocatorFree(allocator: Address): void;
  allocateGraph(allocator: Address, graph: Address): boolean;
  threadpoolDefaults(params: Pointer, numThreads: number): void;
}

/** From libggml-base: dequantization of rows, by block type. */
export type GgmlDequantizers = Readonly<Record<GgmlBlockType, (from: Pointer, to: Pointer, count: number) => void>>;

/** From libggml: the registry of backends. */
export interface GgmlRegistry {
  loadAll(directory: string): void;
  deviceByType(type: number): Address | null;
  backendByType(type: number, params: null): Address | null;
  deviceCount(): number | bigint;
  deviceAt(index: number): Address | null;
}

/** From this processor's backend library, found through the registry. */
export interface GgmlCpu {
  setNumThreads(backend: Address, numThreads: number): void;
  threadpoolNew(params: Pointer): Address | null;
  threadpoolFree(threadpool: Address): void;
  setThreadpool(backend: Address, threadpool: Address): void;
  /** Scalar loops in place of tiles and split key ranges, whose summation order depends on sizes. */
  setUseReference(backend: Address, isOn: boolean): void;
}

export const BASE_SIGNATURES: SignatureTable<GgmlBase> = {
  version: ["ggml_version", "str", ""],
  tensorOverhead: ["ggml_tensor_overhead", "size_t", ""],
  graphOverhead: ["ggml_graph_overhead_custom", "size_t", "size_t bool"],
  typeName: ["ggml_type_name", "str", "int"],
  typeSize: ["ggml_type_size", "size_t", "int"],
  init: ["ggml_init", "void*", "GgmlInitParams"],
  reset: ["ggml_reset", "void", "void*"],
  free: ["ggml_free", "void", "void*"],
  logSet: ["ggml_log_set", "void", "void* void*"],
  newTensor2d: ["ggml_new_tensor_2d", "void*", "void* int int64_t int64_t"],
  newTensor1d: ["ggml_new_tensor_1d", "void*", "void* int int64_t"],
  newTensor3d: ["ggml_new_tensor_3d", "void*", "void* int int64_t int64_t int64_t"],
  getData: ["ggml_get_data", "void*", "void*"],
  setInput: ["ggml_set_input", "void", "void*"],
  setOutput: ["ggml_set_output", "void", "void*"],
  newGraph: ["ggml_new_graph_custom", "void*", "void* size_t bool"],
  expand: ["ggml_build_forward_expand", "void", "void* void*"],
  numNodes: ["ggml_graph_n_nodes", "int", "void*"],
  add: ["ggml_add", "void*", "void* void* void*"],
  accInplace: ["ggml_acc_inplace", "void*", "void* void* void* size_t size_t size_t size_t"],
  mul: ["ggml_mul", "void*", "void* void* void*"],
  mulMat: ["ggml_mul_mat", "void*", "void* void* void*"],
  rmsNorm: ["ggml_rms_norm", "void*", "void* void* float"],
  norm: ["ggml_norm", "void*", "void* void* float"],
  div: ["ggml_div", "void*", "void* void* void*"],
  scale: ["ggml_scale", "void*", "void* void* float"],
  scaleBias: ["ggml_scale_bias", "void*", "void* void* float float"],
  tanh: ["ggml_tanh", "void*", "void* void*"],
  sigmoid: ["ggml_sigmoid", "void*", "void* void*"],
  silu: ["ggml_silu", "void*", "void* void*"],
  relu: ["ggml_relu", "void*", "void* void*"],
  clamp: ["ggml_clamp", "void*", "void* void* float float"],
  cont: ["ggml_cont", "void*", "void* void*"],
  concat: ["ggml_concat", "void*", "void* void* void* int"],
  view1d: ["ggml_view_1d", "void*", "void* void* int64_t size_t"],
  geluErf: ["ggml_gelu_erf", "void*", "void* void*"],
  gegluErf: ["ggml_geglu_erf", "void*", "void* void*"],
  swiglu: ["ggml_swiglu", "void*", "void* void*"],
  swigluOai: ["ggml_swiglu_oai", "void*", "void* void* void* float float"],
  addId: ["ggml_add_id", "void*", "void* void* void* void*"],
  swigluSplit: ["ggml_swiglu_split", "void*", "void* void* void*"],
  softMax: ["ggml_soft_max", "void*", "void* void*"],
  softMaxExt: ["ggml_soft_max_ext", "void*", "void* void* void* float float"],
  permute: ["ggml_permute", "void*", "void* void* int int int int"],
  argsortTopK: ["ggml_argsort_top_k", "void*", "void* void* int"],
  sumRows: ["ggml_sum_rows", "void*", "void* void*"],
  mulMatId: ["ggml_mul_mat_id", "void*", "void* void* void* void*"],
  getRows: ["ggml_get_rows", "void*", "void* void* void*"],
  setRows: ["ggml_set_rows", "void*", "void* void* void* void*"],
  copy: ["ggml_cpy", "void*", "void* void* void*"],
  reshape2d: ["ggml_reshape_2d", "void*", "void* void* int64_t int64_t"],
  reshape3d: ["ggml_reshape_3d", "void*", "void* void* int64_t int64_t int64_t"],
  view2d: ["ggml_view_2d", "void*", "void* void* int64_t int64_t size_t size_t"],
  view3d: ["ggml_view_3d", "void*", "void* void* int64_t int64_t int64_t size_t size_t size_t"],
  view4d: ["ggml_view_4d", "void*", "void* void* int64_t int64_t int64_t int64_t size_t size_t size_t size_t"],
  reshape4d: ["ggml_reshape_4d", "void*", "void* void* int64_t int64_t int64_t int64_t"],
  repeat4d: ["ggml_repeat_4d", "void*", "void* void* int64_t int64_t int64_t int64_t"],
  transpose: ["ggml_transpose", "void*", "void* void*"],
  softplus: ["ggml_softplus", "void*", "void* void*"],
  sqrt: ["ggml_sqrt", "void*", "void* void*"],
  elu: ["ggml_elu", "void*", "void* void*"],
  ssmConv: ["ggml_ssm_conv", "void*", "void* void* void*"],
  ssmScan: ["ggml_ssm_scan", "void*", "void* void* void* void* void* void* void* void* int64_t"],
  gatedDeltaNet: ["ggml_gated_delta_net", "void*", "void* void* void* void* void* void* void* int64_t"],
  ropeExt: ["ggml_rope_ext", "void*", "void* void* void* void* int int int float float float float float float"],
  ropeMulti: [
    "ggml_rope_multi",
    "void*",
    "void* void* void* void* int void* int int float float float float float float",
  ],
  flashAttention: ["ggml_flash_attn_ext", "void*", "void* void* void* void* void* float float float"],
  addSinks: ["ggml_flash_attn_ext_add_sinks", "void", "void* void*"],
  setAccumulator: ["ggml_prec_set_acc", "bool", "void* int"],
  bf16ToF32: ["ggml_bf16_to_fp32_row", "void", "void* void* int64_t"],
  f16ToF32: ["ggml_fp16_to_fp32_row", "void", "void* void* int64_t"],
  f32ToF16: ["ggml_fp32_to_fp16_row", "void", "void* void* int64_t"],
  f32ToBf16: ["ggml_fp32_to_bf16_row", "void", "void* void* int64_t"],
  blockSize: ["ggml_blck_size", "int64_t", "int"],
  quantizeChunk: ["ggml_quantize_chunk", "size_t", "int void* void* int64_t int64_t int64_t void*"],
  allocateContext: ["ggml_backend_alloc_ctx_tensors_from_buft", "void*", "void* void*"],
  bufferFree: ["ggml_backend_buffer_free", "void", "void*"],
  bufferBase: ["ggml_backend_buffer_get_base", "void*", "void*"],
  bufferSize: ["ggml_backend_buffer_get_size", "size_t", "void*"],
  tensorSet: ["ggml_backend_tensor_set", "void", "void* void* size_t size_t"],
  tensorGet: ["ggml_backend_tensor_get", "void", "void* void* size_t size_t"],
  deviceRegistry: ["ggml_backend_dev_backend_reg", "void*", "void*"],
  deviceType: ["ggml_backend_dev_type", "int", "void*"],
  deviceDescription: ["ggml_backend_dev_description", "str", "void*"],
  deviceMemory: ["ggml_backend_dev_memory", "void", "void* void* void*"],
  deviceBufferType: ["ggml_backend_dev_buffer_type", "void*", "void*"],
  procAddress: ["ggml_backend_reg_get_proc_address", "void*", "void* str"],
  supportsOp: ["ggml_backend_dev_supports_op", "bool", "void* void*"],
  backendFree: ["ggml_backend_free", "void", "void*"],
  custom: ["ggml_custom_4d", "void*", "void* int int64_t int64_t int64_t int64_t void* int void* int void*"],
  isContiguous: ["ggml_is_contiguous", "bool", "void*"],
  compute: ["ggml_backend_graph_compute", "int", "void* void*"],
  allocatorNew: ["ggml_gallocr_new", "void*", "void*"],
  allocatorFree: ["ggml_gallocr_free", "void", "void*"],
  allocateGraph: ["ggml_gallocr_alloc_graph", "bool", "void* void*"],
  threadpoolDefaults: ["ggml_threadpool_params_init", "void", "void* int"],
};

export const DEQUANTIZE_SIGNATURES: SignatureTable<GgmlDequantizers> = Object.fromEntries(
  GGML_BLOCK_NAMES.map((name) => [name, [`dequantize_row_${name}`, "void", "void* void* int64_t"]] as const),
) as SignatureTable<GgmlDequantizers>;

export const REGISTRY_SIGNATURES: SignatureTable<GgmlRegistry> = {
  loadAll: ["ggml_backend_load_all_from_path", "void", "str"],
  deviceByType: ["ggml_backend_dev_by_type", "void*", "int"],
  backendByType: ["ggml_backend_init_by_type", "void*", "int str"],
  deviceCount: ["ggml_backend_dev_count", "size_t", ""],
  deviceAt: ["ggml_backend_dev_get", "void*", "size_t"],
};

/** By registry name. */
export const CPU_SIGNATURES: SignatureTable<GgmlCpu> = {
  setNumThreads: ["ggml_backend_set_n_threads", "void", "void* int"],
  threadpoolNew: ["ggml_threadpool_new", "void*", "void*"],
  threadpoolFree: ["ggml_threadpool_free", "void", "void*"],
  setThreadpool: ["ggml_backend_cpu_set_threadpool", "void", "void* void*"],
  setUseReference: ["ggml_backend_cpu_set_use_ref", "void", "void* bool"],
};
