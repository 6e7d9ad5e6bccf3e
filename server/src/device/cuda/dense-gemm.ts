/**
 * Products with weight matrices through cuBLASLt. For each shape it measures the algorithms that the library suggests and
 * keeps the fastest. The number of rows is rounded up, so that few shapes cover all steps: what lies behind the rows asked
 * for must be there, and is overwritten. In the deterministic mode all products are made of pieces of so many rows, each
 * element in one sum by one algorithm, so that a row knows nothing of the others. It knows no layer.
 */
import type {
  MatmulAlgorithm,
  MatmulPlan,
  MatmulPointers,
  MatmulShape,
  MatmulType,
} from "../../native/cuda/cublaslt.ts";
import type { CudaDevice } from "./cuda-device.ts";
import type { CudaBuffer } from "./cuda-memory.ts";
import { type AlgorithmTimer, measureAlgorithms } from "./measure-algorithms.ts";

export interface Product extends MatmulShape, MatmulPointers {}

/** What a forward pass needs: tests put a recorder in its place. */
export interface Products {
  /** y = x . weight^T + bias for `rows` rows; `x` and `y` have room for `productRows(rows)`. */
  run(product: Product): void;
}

/** As the library's documentation advises for its fastest algorithms. */
export const PRODUCT_WORKSPACE_BYTES: number = 64 << 20;
const MAX_ALGORITHMS = 12;
/** 8-bit products take whole groups of rows only. */
const MIN_QUANTIZED_ROWS = 16;

/** Of every product in the deterministic mode: with fewer, most matrices are still read in the time of the arithmetic. */
export const PIECE_ROWS = 128;
const BYTES: Readonly<Record<MatmulType, number>> = { f32: 4, f16: 2, bf16: 2, e4m3: 1, i8: 1, i32: 4 };

/** Rows that a product with `rows` rows is computed with. */
export function productRows(rows: number, isQuantized = false): number {
  if (isQuantized && rows <= MIN_QUANTIZED_ROWS) return MIN_QUANTIZED_ROWS;
  if (rows <= 8) return 2 ** Math.ceil(Math.log2(Math.max(1, rows)));
  return Math.ceil(rows / rowStep(rows)) * rowStep(rows);
}

/** Steps grow with the size, so that at most a sixth of the work is for nothing. */
function rowStep(rows: number): number {
  if (rows <= 64) return 8;
  if (rows <= 256) return 32;
  return rows <= 1024 ? 64 : 128;
}

interface Chosen {
  readonly plan: MatmulPlan;
  readonly algorithm: MatmulAlgorithm;
}

/** What was chosen for a shape, for another process on a device and with a library like these. */
export interface KnownProduct {
  readonly shape: string;
  /** As the library has it, in hexadecimal digits. */
  readonly algorithm: string;
  readonly workspaceBytes: number;
}

export class DenseProducts implements Products {
  /** The time of what was chosen, by shape, for reports. */
  readonly measuredUs: Map<string, { readonly bestUs: number; readonly firstUs: number; readonly count: number }>;
  readonly #device: CudaDevice;
  readonly #workspace: CudaBuffer;
  readonly #timer: AlgorithmTimer;
  readonly #isDeterministic: boolean;
  readonly #chosen = new Map<string, Chosen>();
  readonly #adopted = new Map<string, MatmulAlgorithm>();
  /** Sees each product before it runs; what it reads of the device is what was enqueued until then. */
  onProduct: ((product: Product) => void) | undefined = undefined;

  constructor(device: CudaDevice, timer: AlgorithmTimer, isDeterministic = false) {
    this.#device = device;
    this.#timer = timer;
    this.#isDeterministic = isDeterministic;
    this.#workspace = device.allocate("matrix products", PRODUCT_WORKSPACE_BYTES);
    this.measuredUs = new Map();
  }

  /** So far, in any order. */
  get known(): readonly KnownProduct[] {
    return [...this.#chosen].map(([shape, { algorithm }]) => {
      const { data, workspaceBytes } = algorithm;
      return { shape, algorithm: Buffer.from(data).toString("hex"), workspaceBytes };
    });
  }

  /** Shapes for which nothing needs to be measured. What is fast is not asked for in the deterministic mode. */
  adopt(known: readonly KnownProduct[]): void {
    if (this.#isDeterministic) return;
    for (const { shape, algorithm, workspaceBytes } of known) {
      if (workspaceBytes > PRODUCT_WORKSPACE_BYTES) continue;
      this.#adopted.set(shape, { data: new Uint8Array(Buffer.from(algorithm, "hex")), workspaceBytes });
    }
  }

  /** The first product of a shape that is not known measures, and must not be part of a graph. */
  run(product: Product): void {
    if (!this.#isDeterministic) {
      this.#run(product, productRows(product.rows, product.inputType === "e4m3" || product.inputType === "i8"));
      return;
    }
    for (let first = 0; first < product.rows; first += PIECE_ROWS) this.#run(pieceOf(product, first), PIECE_ROWS);
  }

  #run(product: Product, rows: number): void {
    const { outputs, inputs, inputType, outputType, hasBias, scales } = product;
    const key = `${rows} ${outputs} ${inputs} ${inputType} ${outputType} ${hasBias} ${scales}`;
    const known = this.#chosen.get(key);
    const { plan, algorithm } = known ?? this.#choose(key, { ...shapeOf(product), rows }, product);
    this.onProduct?.(product);
    plan.run(product, algorithm, this.#workspace, this.#device.stream.address);
  }

  close(): void {
    for (const { plan } of this.#chosen.values()) plan.close();
    this.#chosen.clear();
    this.#workspace.close();
  }

  #choose(key: string, shape: MatmulShape, pointers: MatmulPointers): Chosen {
    const plan = this.#device.lt.plan(shape);
    const adopted = this.#adopted.get(key);
    if (adopted !== undefined) {
      const known = { plan, algorithm: adopted };
      this.#chosen.set(key, known);
      return known;
    }
    const algorithms = plan.algorithms(pointers, PRODUCT_WORKSPACE_BYTES, MAX_ALGORITHMS, this.#isDeterministic);
    const { address } = this.#device.stream;
    const results = measureAlgorithms(algorithms, this.#timer, (algorithm) =>
      plan.run(pointers, algorithm, this.#workspace, address),
    );
    // What is fastest is not the same each time: the library's first guess is.
    const [best] = this.#isDeterministic ? results : results.toSorted((a, b) => a.us - b.us);
    if (best === undefined) throw new Error(`cuBLASLt has no algorithm for ${key}`);
    this.measuredUs.set(key, { bestUs: best.us, firstUs: results[0]?.us ?? best.us, count: results.length });
    const chosen = { plan, algorithm: best.algorithm };
    this.#chosen.set(key, chosen);
    return chosen;
  }
}

/** The product of rows from `first` on. */
function pieceOf(product: Product, first: number): Product {
  const { rows, inputs, outputs, inputType, outputType, x, y, scales, xScale } = product;
  return {
    ...product,
    rows: Math.min(PIECE_ROWS, rows - first),
    x: x + BigInt(first * inputs * BYTES[inputType]),
    y: y + BigInt(first * outputs * BYTES[outputType]),
    xScale: scales === "rows" && xScale !== undefined ? xScale + BigInt(4 * first) : xScale,
  };
}

function shapeOf({ rows, outputs, inputs, inputType, outputType, hasBias, scales }: Product): MatmulShape {
  return { rows, outputs, inputs, inputType, outputType, hasBias, scales };
}
