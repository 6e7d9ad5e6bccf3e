/**
 * Presents the experts of gpt-oss as modules whose rows are outputs, gates in front of the other half, in FP32. Files hold
 * floats [experts, inputs, outputs] or MXFP4 blocks [experts, outputs, inputs / 32, 16] with a power of two for each, and
 * the rows of gates and of the others alternate. Source: OCP Microscaling Formats (MX) v1.0, sections 5.2 and 5.3.3;
 * transformers, modeling_gpt_oss.py and integrations/mxfp4.py.
 */
import { readFloats } from "../tensors/read-floats.ts";
import {
  expectTensorRange,
  type Mxfp4Matrix,
  type Mxfp4Tensor,
  type StoredTensor,
  type TensorSource,
  tensorBytes,
} from "../tensors/tensor-source.ts";
import { e8m0Values } from "./fp8-values.ts";

const NAME = /^(.*\.mlp\.experts\.(gate_up|down)_proj)(_blocks|_scales|_bias)?$/;
/** Values of E2M1 by code; the fourth bit is the sign. */
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const BLOCK_BYTES = 16;
const BLOCK = 2 * BLOCK_BYTES;

interface Experts {
  readonly numExperts: number;
  readonly rows: number;
  readonly columns: number;
  /** Rows of gates and of the others alternate in the file. */
  readonly isPaired: boolean;
  readonly kind: "floats" | "blocks" | "biases";
  readonly source: StoredTensor;
  /** Absent unless there are blocks. */
  readonly scales: StoredTensor | undefined;
}

/** Takes over the source. @throws Error naming a tensor of another shape */
export function openGptOssExperts(source: TensorSource): TensorSource {
  return new GptOssTensors(source);
}

class GptOssTensors implements TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly mxfp4: ReadonlyMap<string, Mxfp4Tensor>;
  readonly #source: TensorSource;
  readonly #experts = new Map<string, Experts>();
  /** Experts are read one after the other, in pieces. */
  #last: { readonly name: string; readonly expert: number; readonly values: Promise<Float32Array> } | undefined;

  constructor(source: TensorSource) {
    this.#source = source;
    const tensors = new Map<string, StoredTensor>();
    for (const [name, tensor] of source.tensors) {
      const [, module = "", , ending = ""] = NAME.exec(name) ?? [];
      if (module === "") tensors.set(name, tensor);
      if (module === "" || ending === "_scales") continue;
      const experts = describe(source, tensor, module, ending);
      const own = `${module}${ending === "_bias" ? ".bias" : ".weight"}`;
      const { numExperts, rows, columns, kind } = experts;
      const shape = kind === "biases" ? [numExperts, rows] : [numExperts, rows, columns];
      tensors.set(own, { name: own, dtype: "F32", shape, byteLength: tensorBytes("F32", shape) });
      this.#experts.set(own, experts);
    }
    this.tensors = tensors;
    const stored = [...this.#experts].filter(([, { kind }]) => kind === "blocks");
    this.mxfp4 = new Map(
      stored.map(([name, experts]) => [name, { readExpert: (expert) => readMatrix(source, experts, expert) }]),
    );
  }

  async read(name: string, into: Uint8Array, byteOffset = 0): Promise<void> {
    const experts = this.#experts.get(name);
    if (experts === undefined) return this.#source.read(name, into, byteOffset);
    expectTensorRange(this.tensors, name, into.byteLength, byteOffset);
    const expertBytes = 4 * experts.rows * experts.columns;
    for (let at = 0; at < into.byteLength; ) {
      const from = byteOffset + at;
      const expert = Math.floor(from / expertBytes);
      const skipped = from - expert * expertBytes;
      const count = Math.min(into.byteLength - at, expertBytes - skipped);
      const { buffer } = await this.#expert(name, experts, expert);
      into.set(new Uint8Array(buffer, skipped, count), at);
      at += count;
    }
  }

  async close(): Promise<void> {
    this.#last = undefined;
    await this.#source.close();
  }

  #expert(name: string, experts: Experts, expert: number): Promise<Float32Array> {
    if (this.#last?.name !== name || this.#last.expert !== expert)
      this.#last = { name, expert, values: readExpert(this.#source, experts, expert) };
    return this.#last.values;
  }
}

function describe(source: TensorSource, tensor: StoredTensor, module: string, ending: string): Experts {
  const isPaired = module.endsWith("gate_up_proj");
  const [numExperts = 0, second = 0, third = 0, fourth = 0] = tensor.shape;
  const common = { numExperts, isPaired, source: tensor, scales: undefined };
  if (ending === "_bias") return { ...common, kind: "biases", rows: second, columns: 1 };
  if (ending === "") return { ...common, kind: "floats", rows: third, columns: second };
  const scales = source.tensors.get(`${module}_scales`);
  const fits = scales?.shape.join() === [numExperts, second, third].join() && fourth === BLOCK_BYTES;
  if (!fits || scales.dtype !== "U8" || tensor.dtype !== "U8") {
    const got = scales === undefined ? "none" : `${scales.dtype}[${scales.shape.join(", ")}]`;
    throw new Error(
      `tensor "${tensor.name}": expected U8 blocks of ${BLOCK_BYTES} bytes and a scale for each, got ` +
        `${tensor.dtype}[${tensor.shape.join(", ")}] and ${got}`,
    );
  }
  return { ...common, kind: "blocks", rows: second, columns: third * BLOCK, scales };
}

/** [rows, columns] */
async function readExpert(source: TensorSource, experts: Experts, expert: number): Promise<Float32Array> {
  const { rows, columns } = experts;
  const stored = await readStored(source, experts, expert);
  const out = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const from = storedRow(experts, row);
    for (let column = 0; column < columns; column++) out[row * columns + column] = stored(from, column);
  }
  return out;
}

/** Row of the file that is row `row`: gates in front. */
function storedRow({ rows, isPaired }: Experts, row: number): number {
  const half = rows / 2;
  if (!isPaired) return row;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

/** The blocks of an expert as they are, gates in front. */
async function readMatrix(source: TensorSource, experts: Experts, expert: number): Promise<Mxfp4Matrix> {
  const { source: stored, scales, rows, columns } = experts;
  if (scales === undefined) throw new Error(`tensor "${stored.name}" has no scales`);
  const read = async (name: string, rowBytes: number): Promise<Uint8Array> => {
    const bytes = new Uint8Array(rows * rowBytes);
    await source.read(name, bytes, expert * bytes.length);
    const ordered = new Uint8Array(bytes.length);
    for (let row = 0; row < rows; row++) {
      const from = storedRow(experts, row) * rowBytes;
      ordered.set(bytes.subarray(from, from + rowBytes), row * rowBytes);
    }
    return ordered;
  };
  return { blocks: await read(stored.name, columns / 2), exponents: await read(scales.name, columns / BLOCK) };
}

type Elements = (row: number, column: number) => number;

async function readStored(source: TensorSource, experts: Experts, expert: number): Promise<Elements> {
  const { rows, columns, kind, scales } = experts;
  if (kind === "blocks" && scales !== undefined) return readBlocks(source, experts, scales, expert);
  const values = await readFloats(source, experts.source.name, expert * rows * columns, rows * columns);
  if (kind === "biases") return (row) => values[row] ?? 0;
  return (row, column) => values[column * rows + row] ?? 0;
}

async function readBlocks(
  source: TensorSource,
  { source: { name }, rows, columns }: Experts,
  scales: StoredTensor,
  expert: number,
): Promise<Elements> {
  const codes = new Uint8Array((rows * columns) / 2);
  await source.read(name, codes, expert * codes.length);
  const exponents = new Uint8Array((rows * columns) / BLOCK);
  await source.read(scales.name, exponents, expert * exponents.length);
  const powers = e8m0Values();
  return (row, column) => {
    const at = row * columns + column;
    const pair = codes[at >> 1] ?? 0;
    const code = at % 2 === 0 ? pair & 15 : pair >> 4;
    const value = (E2M1[code & 7] ?? 0) * (powers[exponents[Math.floor(at / BLOCK)] ?? 0] ?? 0);
    return code > 7 ? -value : value;
  };
}
