/**
 * GEMMs with weight matrices through cuBLASLt. For each shape it measures the algorithms that the library suggests and
 * keeps the fastest. The number of rows is rounded up, so that few shapes cover all steps: what lies behind the rows asked
 * for must be there, and is overwritten. In the deterministic mode all GEMMs are made of pieces of so many rows, each
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

export interface DenseGemm extends MatmulShape, MatmulPointers {}

/** The GEMM interface of a forward pass: tests put a recorder in its place. */
export interface GemmRunner {
  /** y = x . weight^T + bias for `rows` rows; `x` and `y` have room for `gemmRows(rows)`. */
  run(gemm: DenseGemm): void;
}

/** As the library's documentation advises for its fastest algorithms. */
export const GEMM_WORKSPACE_BYTES: number = 64 << 20;
const MAX_ALGORITHMS = 12;
/** FP8 GEMMs take whole groups of rows only. */
const MIN_QUANTIZED_ROWS = 16;

/** Rows of every GEMM in the deterministic mode: the arithmetic of so many takes about as long as reading a matrix once. */
export const PIECE_ROWS = 128;
const BYTES: Readonly<Record<MatmulType, number>> = { f32: 4, f16: 2, bf16: 2, e4m3: 1, i8: 1, i32: 4 };

/** Rows that a GEMM with `rows` rows is computed with. */
export function gemmRows(rows: number, isQuantized = false): number {
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

/** The choice for a shape, for another process with the same kind of device and library. */
export interface KnownGemm {
  readonly shape: string;
  /** As the library has it, in hexadecimal digits. */
  readonly algorithm: string;
  readonly workspaceBytes: number;
}

export class CublasLtGemms implements GemmRunner {
  /** The time of what was chosen, by shape, for reports. */
  readonly measuredUs: Map<string, { readonly bestUs: number; readonly firstUs: number; readonly count: number }>;
  readonly #device: CudaDevice;
  readonly #workspace: CudaBuffer;
  readonly #timer: AlgorithmTimer;
  readonly #isDeterministic: boolean;
  readonly #chosen = new Map<string, Chosen>();
  readonly #adopted = new Map<string, MatmulAlgorithm>();
  /** Sees each GEMM before it runs; what it reads of the device is what was enqueued until then. */
  onGemm: ((gemm: DenseGemm) => void) | undefined = undefined;
  /** Called when an algorithm was measured and chosen. */
  onMeasured: (() => void) | undefined = undefined;

  constructor(device: CudaDevice, timer: AlgorithmTimer, isDeterministic = false) {
    this.#device = device;
    this.#timer = timer;
    this.#isDeterministic = isDeterministic;
    this.#workspace = device.allocate("matrix GEMMs", GEMM_WORKSPACE_BYTES);
    this.measuredUs = new Map();
  }

  /** So far, in any order. */
  get known(): readonly KnownGemm[] {
    return [...this.#chosen].map(([shape, { algorithm }]) => knownGemm(shape, algorithm));
  }

  /** All choices, adopted ones that were not needed yet included. */
  get all(): readonly KnownGemm[] {
    const adopted = [...this.#adopted].filter(([shape]) => !this.#chosen.has(shape));
    return [...this.known, ...adopted.map(([shape, algorithm]) => knownGemm(shape, algorithm))];
  }

  /** Adopts shapes that need no measuring. The deterministic mode ignores measured choices. */
  adopt(known: readonly KnownGemm[]): void {
    if (this.#isDeterministic) return;
    for (const { shape, algorithm, workspaceBytes } of known) {
      if (workspaceBytes > GEMM_WORKSPACE_BYTES) continue;
      this.#adopted.set(shape, { data: new Uint8Array(Buffer.from(algorithm, "hex")), workspaceBytes });
    }
  }

  /** The first GEMM of a shape that is not known measures, and must not be part of a graph. */
  run(gemm: DenseGemm): void {
    if (!this.#isDeterministic) {
      this.#run(gemm, gemmRows(gemm.rows, gemm.inputType === "e4m3" || gemm.inputType === "i8"));
      return;
    }
    for (let first = 0; first < gemm.rows; first += PIECE_ROWS) this.#run(pieceOf(gemm, first), PIECE_ROWS);
  }

  #run(gemm: DenseGemm, rows: number): void {
    const { outputs, inputs, inputType, outputType, hasBias, scales } = gemm;
    const key = `${rows} ${outputs} ${inputs} ${inputType} ${outputType} ${hasBias} ${scales}`;
    const known = this.#chosen.get(key);
    const { plan, algorithm } = known ?? this.#choose(key, { ...shapeOf(gemm), rows }, gemm);
    this.onGemm?.(gemm);
    const { stream, checksLaunches } = this.#device;
    plan.run(gemm, algorithm, this.#workspace, stream.address);
    if (checksLaunches) stream.expectDone(`running a GEMM (rows, outputs, inputs, types, bias, scales: ${key})`);
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
    const algorithms = plan.algorithms(pointers, GEMM_WORKSPACE_BYTES, MAX_ALGORITHMS, this.#isDeterministic);
    const { address } = this.#device.stream;
    const results = measureAlgorithms(algorithms, this.#timer, (algorithm) =>
      plan.run(pointers, algorithm, this.#workspace, address),
    );
    // The fastest differs from run to run; the library's first choice does not.
    const [best] = this.#isDeterministic ? results : results.toSorted((a, b) => a.us - b.us);
    if (best === undefined) throw new Error(`cuBLASLt has no algorithm for ${key}`);
    this.measuredUs.set(key, { bestUs: best.us, firstUs: results[0]?.us ?? best.us, count: results.length });
    const chosen = { plan, algorithm: best.algorithm };
    this.#chosen.set(key, chosen);
    this.onMeasured?.();
    return chosen;
  }
}

function knownGemm(shape: string, { data, workspaceBytes }: MatmulAlgorithm): KnownGemm {
  return { shape, algorithm: Buffer.from(data).toString("hex"), workspaceBytes };
}

/** The GEMM of rows from `first` on. */
function pieceOf(gemm: DenseGemm, first: number): DenseGemm {
  const { rows, inputs, outputs, inputType, outputType, x, y, scales, xScale } = gemm;
  return {
    ...gemm,
    rows: Math.min(PIECE_ROWS, rows - first),
    x: x + BigInt(first * inputs * BYTES[inputType]),
    y: y + BigInt(first * outputs * BYTES[outputType]),
    xScale: scales === "rows" && xScale !== undefined ? xScale + BigInt(4 * first) : xScale,
  };
}

function shapeOf({ rows, outputs, inputs, inputType, outputType, hasBias, scales }: DenseGemm): MatmulShape {
  return { rows, outputs, inputs, inputType, outputType, hasBias, scales };
}
