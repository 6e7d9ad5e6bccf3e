/**
 * cuBLASLt GEMMs: descriptors, algorithm heuristics, execution. Matrices are row-major. Source: NVIDIA cuBLAS
 * documentation, "Using the cuBLASLt API". Knows no layer and no model, and measures nothing.
 */

import { type Address, type NativeFunction, openLibrary } from "../ffi.ts";
import { expectCudaLibrary } from "./libraries.ts";

/** Element type of a matrix. */
export type MatmulType = "f32" | "f16" | "bf16" | "e4m3" | "i8" | "i32";

/** y[rows, outputs] = x[rows, inputs] . weight[outputs, inputs]^T (+ bias[outputs]) */
export interface MatmulShape {
  readonly rows: number;
  readonly outputs: number;
  readonly inputs: number;
  readonly inputType: MatmulType;
  readonly outputType: MatmulType;
  readonly hasBias: boolean;
  /** Scaling of the result: none, one float per operand, or one float per row of each operand. */
  readonly scales: "none" | "tensor" | "rows";
}

export interface MatmulPointers {
  readonly x: Address;
  readonly weight: Address;
  readonly y: Address;
  readonly bias?: Address | undefined;
  readonly xScale?: Address | undefined;
  readonly weightScale?: Address | undefined;
}

export interface MatmulAlgorithm {
  /** cublasLtMatmulAlgo_t: 64 opaque bytes. */
  readonly data: Uint8Array;
  readonly workspaceBytes: number;
}

/** A GEMM of one shape, ready to be enqueued with any pointers. */
export interface MatmulPlan {
  readonly shape: MatmulShape;
  /**
   * Best candidates first; empty when the library has none for this shape. Scaled operands need scale pointers for the
   * heuristic. `inOneSum` excludes split-K algorithms.
   */
  algorithms(
    pointers: MatmulPointers,
    maxWorkspaceBytes: number,
    count: number,
    inOneSum?: boolean,
  ): readonly MatmulAlgorithm[];
  /** @throws Error with the status of the library */
  run(
    pointers: MatmulPointers,
    algorithm: MatmulAlgorithm,
    workspace: { readonly address: Address; readonly numBytes: number },
    stream: Address,
  ): void;
  close(): void;
}

export interface CublasLt {
  readonly path: string;
  /** e.g. 130000 */
  readonly version: number;
  plan(shape: MatmulShape): MatmulPlan;
}

type Call<Args extends unknown[]> = NativeFunction<Args, number>;
type Out = BigUint64Array;

interface LtCalls {
  readonly version: NativeFunction<[], bigint | number>;
  readonly create: Call<[Out]>;
  readonly createDescriptor: Call<[Out, number, number]>;
  readonly setDescriptor: Call<[Address, number, ArrayBufferView, number]>;
  readonly destroyDescriptor: Call<[Address]>;
  readonly createLayout: Call<[Out, number, number, number, number]>;
  readonly destroyLayout: Call<[Address]>;
  readonly createPreference: Call<[Out]>;
  readonly setPreference: Call<[Address, number, ArrayBufferView, number]>;
  readonly destroyPreference: Call<[Address]>;
  readonly heuristic: Call<
    [Address, Address, Address, Address, Address, Address, Address, number, Uint8Array, Int32Array]
  >;
  readonly matmul: Call<
    [
      Address,
      Address,
      ArrayBufferView,
      Address,
      Address,
      Address,
      Address,
      ArrayBufferView,
      Address,
      Address,
      Address,
      Address,
      Uint8Array,
      Address,
      bigint,
      Address,
    ]
  >;
}

const DATA_TYPES: Readonly<Record<MatmulType, number>> = { f32: 0, f16: 2, i8: 3, i32: 10, bf16: 14, e4m3: 28 };
const COMPUTE_F32 = 68;
const COMPUTE_I32 = 72;
const DESCRIPTOR = {
  transposeA: 3,
  epilogue: 7,
  biasPointer: 8,
  aScalePointer: 17,
  bScalePointer: 18,
  fastAccumulation: 25,
  biasType: 26,
  aScaleMode: 31,
  bScaleMode: 32,
} as const;
const TRANSPOSED = 1;
const EPILOGUE_BIAS = 4;
const SCALE_PER_ROW = 3;
const PREFERENCE = { workspace: 1, reductions: 3 } as const;
const NO_REDUCTION = 0;
/** cublasLtMatmulHeuristicResult_t */
const RESULT = { algorithmBytes: 64, workspaceAt: 64, stateAt: 72, numBytes: 96 } as const;

const STATUS_NAMES: Readonly<Record<number, string>> = {
  1: "CUBLAS_STATUS_NOT_INITIALIZED",
  3: "CUBLAS_STATUS_ALLOC_FAILED",
  7: "CUBLAS_STATUS_INVALID_VALUE",
  8: "CUBLAS_STATUS_ARCH_MISMATCH",
  11: "CUBLAS_STATUS_MAPPING_ERROR",
  13: "CUBLAS_STATUS_EXECUTION_FAILED",
  14: "CUBLAS_STATUS_INTERNAL_ERROR",
  15: "CUBLAS_STATUS_NOT_SUPPORTED",
};

/** A CUDA context must be current. @throws Error when the library is missing or does not start */
export function openCublasLt(path: string = expectCudaLibrary("cublaslt")): CublasLt {
  const calls = loadCalls(path);
  const handle = make(calls.create, "cublasLtCreate");
  return {
    path,
    version: Number(calls.version()),
    plan: (shape) => new Plan(calls, handle, shape),
  };
}

class Plan implements MatmulPlan {
  readonly shape: MatmulShape;
  readonly #calls: LtCalls;
  readonly #handle: Address;
  readonly #descriptor: Address;
  // The library is column-major, in which a row-major matrix is its own transpose.
  readonly #weight: Address;
  readonly #x: Address;
  readonly #y: Address;
  readonly #one: ArrayBufferView;
  readonly #zero: ArrayBufferView;
  readonly #pointer = new BigUint64Array(new ArrayBuffer(8));

  constructor(calls: LtCalls, handle: Address, shape: MatmulShape) {
    this.#calls = calls;
    this.#handle = handle;
    this.shape = shape;
    const { rows, outputs, inputs, inputType, outputType } = shape;
    const isInteger = inputType === "i8";
    const scaleType = isInteger ? DATA_TYPES.i32 : DATA_TYPES.f32;
    this.#one = isInteger ? Int32Array.of(1) : Float32Array.of(1);
    this.#zero = isInteger ? Int32Array.of(0) : Float32Array.of(0);
    this.#descriptor = make(
      (out) => calls.createDescriptor(out, isInteger ? COMPUTE_I32 : COMPUTE_F32, scaleType),
      "cublasLtMatmulDescCreate",
    );
    this.#configure(shape);
    const layout = (type: MatmulType, numRows: number, numColumns: number): Address =>
      make(
        (out) => calls.createLayout(out, DATA_TYPES[type], numRows, numColumns, numRows),
        "cublasLtMatrixLayoutCreate",
      );
    this.#weight = layout(inputType, inputs, outputs);
    this.#x = layout(inputType, inputs, rows);
    this.#y = layout(outputType, outputs, rows);
  }

  algorithms(
    pointers: MatmulPointers,
    maxWorkspaceBytes: number,
    count: number,
    inOneSum = false,
  ): readonly MatmulAlgorithm[] {
    this.#setPointers(pointers);
    const preference = make(this.#calls.createPreference, "cublasLtMatmulPreferenceCreate");
    try {
      const limit = BigUint64Array.of(BigInt(maxWorkspaceBytes));
      const { setPreference } = this.#calls;
      expectSuccess(setPreference(preference, PREFERENCE.workspace, limit, 8), "a limit for the workspace");
      const mask = Uint32Array.of(NO_REDUCTION);
      if (inOneSum) expectSuccess(setPreference(preference, PREFERENCE.reductions, mask, 4), "sums in one piece");
      return this.#ask(preference, count);
    } finally {
      this.#calls.destroyPreference(preference);
    }
  }

  run(
    pointers: MatmulPointers,
    algorithm: MatmulAlgorithm,
    workspace: { readonly address: Address; readonly numBytes: number },
    stream: Address,
  ): void {
    this.#setPointers(pointers);
    const status = this.#calls.matmul(
      this.#handle,
      this.#descriptor,
      this.#one,
      pointers.weight,
      this.#weight,
      pointers.x,
      this.#x,
      this.#zero,
      pointers.y,
      this.#y,
      pointers.y,
      this.#y,
      algorithm.data,
      workspace.address,
      BigInt(workspace.numBytes),
      stream,
    );
    if (status !== 0) expectSuccess(status, `a GEMM ${describe(this.shape)}`);
  }

  close(): void {
    for (const layout of [this.#weight, this.#x, this.#y]) this.#calls.destroyLayout(layout);
    this.#calls.destroyDescriptor(this.#descriptor);
  }

  #ask(preference: Address, count: number): readonly MatmulAlgorithm[] {
    const results = new Uint8Array(new ArrayBuffer(count * RESULT.numBytes));
    const found = Int32Array.of(0);
    const status = this.#calls.heuristic(
      this.#handle,
      this.#descriptor,
      this.#weight,
      this.#x,
      this.#y,
      this.#y,
      preference,
      count,
      results,
      found,
    );
    if (status !== 0) return [];
    const fields = new DataView(results.buffer);
    const algorithms: MatmulAlgorithm[] = [];
    for (let at = 0; at < (found[0] ?? 0) * RESULT.numBytes; at += RESULT.numBytes) {
      if (fields.getInt32(at + RESULT.stateAt, true) !== 0) continue;
      const workspaceBytes = Number(fields.getBigUint64(at + RESULT.workspaceAt, true));
      algorithms.push({ data: results.slice(at, at + RESULT.algorithmBytes), workspaceBytes });
    }
    return algorithms;
  }

  #configure({ hasBias, outputType, inputType, scales }: MatmulShape): void {
    this.#set(DESCRIPTOR.transposeA, Int32Array.of(TRANSPOSED));
    if (hasBias) {
      this.#set(DESCRIPTOR.epilogue, Int32Array.of(EPILOGUE_BIAS));
      this.#set(DESCRIPTOR.biasType, Int32Array.of(DATA_TYPES[outputType]));
    }
    if (inputType === "e4m3") this.#set(DESCRIPTOR.fastAccumulation, Int8Array.of(1));
    if (scales === "rows") {
      this.#set(DESCRIPTOR.aScaleMode, Int32Array.of(SCALE_PER_ROW));
      this.#set(DESCRIPTOR.bScaleMode, Int32Array.of(SCALE_PER_ROW));
    }
  }

  #setPointers({ bias, xScale, weightScale }: MatmulPointers): void {
    if (this.shape.hasBias) this.#setPointer(DESCRIPTOR.biasPointer, bias);
    if (this.shape.scales === "none") return;
    this.#setPointer(DESCRIPTOR.aScalePointer, weightScale);
    this.#setPointer(DESCRIPTOR.bScalePointer, xScale);
  }

  #setPointer(attribute: number, address: Address | undefined): void {
    if (address === undefined) throw new Error(`a GEMM ${describe(this.shape)} lacks its bias or a scale`);
    this.#pointer[0] = address;
    this.#set(attribute, this.#pointer);
  }

  #set(attribute: number, value: ArrayBufferView): void {
    const status = this.#calls.setDescriptor(this.#descriptor, attribute, value, value.byteLength);
    if (status !== 0) expectSuccess(status, `attribute ${attribute} of a GEMM ${describe(this.shape)}`);
  }
}

function describe({ rows, outputs, inputs, inputType, outputType, scales }: MatmulShape): string {
  return `[${rows}, ${inputs}] by [${outputs}, ${inputs}] of ${inputType} to ${outputType} (scales: ${scales})`;
}

function make(create: (out: Out) => number, doing: string): Address {
  const out = new BigUint64Array(1);
  expectSuccess(create(out), doing);
  return out[0] ?? 0n;
}

function expectSuccess(status: number, doing: string): void {
  if (status !== 0) throw new Error(`cuBLASLt: ${doing}: ${STATUS_NAMES[status] ?? `status ${status}`}`);
}

function loadCalls(path: string): LtCalls {
  const library = openLibrary(path);
  const handles = (count: number): string[] => Array.from({ length: count }, () => "size_t");
  return {
    version: library.func("cublasLtGetVersion", "size_t", []),
    create: library.func("cublasLtCreate", "int", ["void*"]),
    createDescriptor: library.func("cublasLtMatmulDescCreate", "int", ["void*", "int", "int"]),
    setDescriptor: library.func("cublasLtMatmulDescSetAttribute", "int", ["size_t", "int", "void*", "size_t"]),
    destroyDescriptor: library.func("cublasLtMatmulDescDestroy", "int", ["size_t"]),
    createLayout: library.func("cublasLtMatrixLayoutCreate", "int", ["void*", "int", "uint64", "uint64", "int64"]),
    destroyLayout: library.func("cublasLtMatrixLayoutDestroy", "int", ["size_t"]),
    createPreference: library.func("cublasLtMatmulPreferenceCreate", "int", ["void*"]),
    setPreference: library.func("cublasLtMatmulPreferenceSetAttribute", "int", ["size_t", "int", "void*", "size_t"]),
    destroyPreference: library.func("cublasLtMatmulPreferenceDestroy", "int", ["size_t"]),
    heuristic: library.func("cublasLtMatmulAlgoGetHeuristic", "int", [...handles(7), "int", "void*", "void*"]),
    matmul: library.func("cublasLtMatmul", "int", [
      ...handles(2),
      "void*",
      ...handles(4),
      "void*",
      ...handles(4),
      "void*",
      ...handles(3),
    ]),
  };
}
