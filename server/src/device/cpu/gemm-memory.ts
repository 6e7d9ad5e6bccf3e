/**
 * Chooses the kind of memory for a matrix that is only a GEMM operand. ggml offers kinds that pack blocks for this
 * processor's vector units when a matrix is written. Such a matrix is written whole and never read back.
 */
import type { Address } from "../../native/ffi.ts";
import { expectAddress, GGML_TYPES, type Ggml } from "../../native/ggml/ggml.ts";
import type { CpuTensorSpec } from "./cpu-tensor.ts";

export class GemmMemory {
  readonly #ggml: Ggml;
  readonly #kinds: readonly Address[];
  readonly #chosen = new Map<string, Address | undefined>();

  constructor(ggml: Ggml) {
    this.#ggml = ggml;
    this.#kinds = ggml.extraBufferTypes();
  }

  /** Undefined: the device's usual memory. */
  choose({ type, shape }: CpuTensorSpec): Address | undefined {
    const key = `${type} ${shape.join(" ")}`;
    if (!this.#chosen.has(key)) {
      this.#chosen.set(
        key,
        this.#kinds.find((kind) => this.#takes(kind, { type, shape })),
      );
    }
    return this.#chosen.get(key);
  }

  /** Asks ggml about a GEMM with such a matrix. The memory is reserved for that, but never touched. */
  #takes(kind: Address, { type, shape }: CpuTensorSpec): boolean {
    const { base, device } = this.#ggml;
    const [outer, middle, inner] = shape;
    if (middle === undefined) return false;
    const params = { mem_size: 8 * base.tensorOverhead(), mem_buffer: null, no_alloc: true };
    const [matrices, products] = [
      expectAddress(base.init(params), "a context"),
      expectAddress(base.init(params), "a context"),
    ];
    let memory: Address | null = null;
    try {
      const number = GGML_TYPES[type];
      const matrix =
        inner === undefined
          ? base.newTensor2d(matrices, number, middle, outer)
          : base.newTensor3d(matrices, number, inner, middle, outer);
      memory = base.allocateContext(matrices, kind);
      if (memory === null) return false;
      return base.supportsOp(
        device,
        inner === undefined ? product(base, products, matrix, middle) : expertGemm(base, products, matrix, inner),
      );
    } finally {
      if (memory !== null) base.bufferFree(memory);
      base.free(matrices);
      base.free(products);
    }
  }
}

function product(base: Ggml["base"], context: Address, matrix: Address, inputs: number): Address {
  return base.mulMat(context, matrix, base.newTensor2d(context, GGML_TYPES.f32, inputs, 1));
}

function expertGemm(base: Ggml["base"], context: Address, matrix: Address, inputs: number): Address {
  const rows = base.newTensor3d(context, GGML_TYPES.f32, inputs, 1, 1);
  return base.mulMatId(context, matrix, rows, base.newTensor2d(context, GGML_TYPES.i32, 1, 1));
}
