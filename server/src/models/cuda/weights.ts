/**
 * Loads the weights of a decoder to a GPU: one allocation, filled through pinned memory. Matrices may become codes of 8 bits
 * with a scale per row, made on the device.
 */
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import type { DeviceFloat } from "../../device/cuda/convert-floats.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import { CUDA_TYPE_BYTES, type CudaTensor, layOut, tensorBytes } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { UPLOAD_PIECE_BYTES, Upload } from "../../device/cuda/upload.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import {
  describeWeights,
  findPrefix,
  type LayerWeights,
  type Linear,
  type ModelWeights,
  type WeightPlan,
} from "../weights/weight-plan.ts";
import { type Int4Layout, type Int4Shape, int4Tensor, planInt4Matrix, readInt4Matrix } from "./int4.ts";
import { expectSource, readerOf, readRows } from "./sources.ts";

export interface CudaWeights extends ModelWeights<CudaTensor> {
  readonly numBytes: number;
  close(): void;
}

/** What matrices of layers are kept as. */
export type CudaMatrixType = DeviceFloat | "e4m3" | "int4";

export interface CudaMatrixTypes {
  /** Undefined: 4 bits where the files have these, or what is computed in. */
  readonly layers?: CudaMatrixType | undefined;
  /** The matrix of logits becomes 8-bit floats with a scale per row. */
  readonly quantizesOutput?: boolean | undefined;
}

interface Typed extends WeightPlan {
  readonly type: CudaMatrixType;
  /** Of a matrix of 4 bits. */
  readonly int4?: Int4Layout | undefined;
}

interface Placed extends Typed {
  readonly offset: number;
  /** Of the scales of its rows, where it is made of codes. */
  readonly scalesOffset: number | undefined;
}

/** 8-bit products want both sides of a matrix in whole groups of these. */
const CODE_STEP = 16;

export interface CudaWeightsPlan {
  readonly placed: readonly Placed[];
  /** Of the matrices of 4 bits. */
  readonly int4Shapes: readonly Int4Shape[];
  /** The output is a tensor of codes, beside an embedding that it is tied to. */
  readonly quantizesOutput: boolean;
  readonly numBytes: number;
}

/** What goes where, before anything is allocated. `type` is that of matrices and of what is added to their products. */
export function planCudaWeights(
  { config, weights: names, outputRows }: ParsedDecoder,
  files: Pick<TensorSource, "tensors" | "integers">,
  type: DeviceFloat,
  { layers: layerType, quantizesOutput = false }: CudaMatrixTypes = {},
): CudaWeightsPlan {
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const plans: WeightPlan[] = [];
  const collect = (plan: WeightPlan): WeightPlan => {
    plans.push(plan);
    return plan;
  };
  const tree = describeWeights(config, names, prefix, collect, { outputRows, copiesTiedOutput: quantizesOutput });
  const parts = linearParts(tree);
  const codedOutput = quantizesOutput ? tree.output.weight : undefined;
  for (const { sources } of plans) for (const source of sources) expectSource(source, files);
  const typed = plans.map((plan) =>
    plan === codedOutput ? codedPlan(plan, type) : typePlan(plan, parts, files, type, layerType),
  );
  const scaleSizes = typed.map((plan) => (plan.type === "e4m3" ? tensorBytes("f32", [plan.shape[0]]) : 0));
  const sizes = typed.map((plan) => plan.int4?.numBytes ?? tensorBytes(plan.type, plan.shape));
  const { offsets, numBytes } = layOut([...sizes, ...scaleSizes]);
  const placed = typed.map((plan, i) => ({
    ...plan,
    offset: offsets[i] ?? 0,
    scalesOffset: plan.type === "e4m3" ? offsets[typed.length + i] : undefined,
  }));
  const int4Shapes = typed.flatMap(({ int4, shape: [outputs, inputs = 0] }) =>
    int4 === undefined ? [] : [{ outputs, inputs, hasInputScales: int4.hasInputScales }],
  );
  return { placed, int4Shapes, quantizesOutput, numBytes };
}

/** @throws Error when products of codes do not take the matrix */
function codedPlan(plan: WeightPlan, type: DeviceFloat): Typed {
  if (type === "bf16" && plan.shape.every((size) => size % CODE_STEP === 0)) return { ...plan, type: "e4m3" };
  throw new Error(
    `an output of 8-bit floats: expected bf16 and multiples of ${CODE_STEP}, got ${type} and ${plan.shape.join(" x ")}`,
  );
}

function typePlan(
  plan: WeightPlan,
  { biases, matrices, besideExperts }: LinearParts,
  files: Pick<TensorSource, "integers">,
  type: DeviceFloat,
  layerType: CudaMatrixType | undefined,
): Typed {
  const ofKind = plan.kind === "exact" && !biases.has(plan) && !besideExperts.has(plan) ? "f32" : type;
  if (!matrices.has(plan)) return { ...plan, type: ofKind };
  const int4 =
    type === "bf16" && (layerType === undefined || layerType === "int4")
      ? planInt4Matrix(plan, files, layerType === "int4")
      : undefined;
  if (int4 !== undefined) return { ...plan, type: "int4", int4 };
  const canBeCoded = !besideExperts.has(plan) && plan.shape.every((size) => size % CODE_STEP === 0);
  const isCoded = layerType === "e4m3" && canBeCoded;
  const float = layerType === "e4m3" || layerType === "int4" ? type : (layerType ?? type);
  return { ...plan, type: isCoded ? "e4m3" : float };
}

/** @throws Error naming a tensor that is missing or of another shape or type */
export async function loadCudaWeights(
  device: CudaDevice,
  parsed: ParsedDecoder,
  files: TensorSource,
  { placed, quantizesOutput, numBytes }: CudaWeightsPlan,
): Promise<CudaWeights> {
  const names = parsed.weights;
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const buffer = device.allocate("weights", numBytes);
  const upload = new Upload(device);
  // Where rows lie before they become codes.
  const rows = placed.some(({ type }) => type === "e4m3")
    ? device.allocate("rows of weights", UPLOAD_PIECE_BYTES)
    : undefined;
  try {
    for (const plan of placed) await fill({ device, upload, rows, files }, buffer, plan);
  } catch (error) {
    buffer.close();
    throw error;
  } finally {
    upload.close();
    rows?.close();
  }
  return { ...nameTensors(parsed, prefix, buffer, placed, quantizesOutput), numBytes, close: () => buffer.close() };
}

function nameTensors(
  { config, weights: names, outputRows }: ParsedDecoder,
  prefix: string,
  buffer: CudaBuffer,
  placed: readonly Placed[],
  copiesTiedOutput: boolean,
): ModelWeights<CudaTensor> {
  let next = 0;
  const take = (): CudaTensor => {
    const plan = placed[next++];
    if (plan === undefined) throw new Error(`expected ${next} weights, planned ${placed.length}`);
    const address = buffer.address + BigInt(plan.offset);
    const { type, shape, int4 } = plan;
    if (int4 !== undefined) return int4Tensor(address, shape, int4);
    const scales = plan.scalesOffset === undefined ? undefined : buffer.address + BigInt(plan.scalesOffset);
    return { address, type, shape, scales };
  };
  return describeWeights(config, names, prefix, take, { outputRows, copiesTiedOutput });
}

interface LinearParts {
  /** Of the products of layers, which add them in their own type; norms and logits are made in f32. */
  readonly biases: ReadonlySet<WeightPlan>;
  /** Of layers; those of experts are not among them. */
  readonly matrices: ReadonlySet<WeightPlan>;
  /** What chooses between experts, and the expert of all tokens: they read the rows that experts read, which are no codes. */
  readonly besideExperts: ReadonlySet<WeightPlan>;
}

function linearParts(tree: ModelWeights<WeightPlan>): LinearParts {
  const biases = new Set<WeightPlan>();
  const matrices = new Set<WeightPlan>();
  const besideExperts = new Set<WeightPlan>();
  for (const layer of tree.layers) {
    for (const plan of besideExpertsOf(layer)) besideExperts.add(plan);
    for (const { weight, bias } of linearsOf(layer)) {
      matrices.add(weight);
      if (bias !== undefined) biases.add(bias);
    }
  }
  return { biases, matrices, besideExperts };
}

function linearsOf({ qkv, attentionOut, mlp }: LayerWeights<WeightPlan>): readonly Linear<WeightPlan>[] {
  const dense = "router" in mlp ? mlp.shared?.mlp : mlp;
  return dense === undefined ? [qkv, attentionOut] : [qkv, attentionOut, dense.in, dense.out];
}

function besideExpertsOf({ mlp }: LayerWeights<WeightPlan>): readonly WeightPlan[] {
  if (!("router" in mlp)) return [];
  const { router, shared } = mlp;
  return shared === undefined ? [router] : [router, shared.gate, shared.mlp.in.weight, shared.mlp.out.weight];
}

interface Filling {
  readonly device: CudaDevice;
  readonly upload: Upload;
  readonly rows: CudaBuffer | undefined;
  readonly files: TensorSource;
}

async function fill(filling: Filling, buffer: CudaBuffer, plan: Placed): Promise<void> {
  if (plan.int4 !== undefined) return fillInt4(filling, buffer.address + BigInt(plan.offset), plan, plan.int4);
  let element = 0;
  for (const source of plan.sources) {
    const stored = expectSource(source, filling.files);
    const numElements = stored.shape.reduce((product, size) => product * size, 1);
    const columns = plan.shape.at(-1) ?? 1;
    const target = targetOf(filling, buffer, plan, columns);
    const read = await readerOf(filling.files, stored, source, target.type);
    // Whole rows, where a scale belongs to each.
    const pieceElements = Math.floor(UPLOAD_PIECE_BYTES / CUDA_TYPE_BYTES[target.type] / columns) * columns;
    for (let at = 0; at < numElements; at += pieceElements) {
      const count = Math.min(pieceElements, numElements - at);
      const to = target.place(element + at);
      await filling.upload.write(to, count * CUDA_TYPE_BYTES[target.type], (bytes) => read(at, bytes));
      target.finish(element + at, count);
    }
    element += numElements;
  }
}

async function fillInt4(filling: Filling, base: DevicePointer, plan: Placed, layout: Int4Layout): Promise<void> {
  const { files, upload } = filling;
  const { codes, scales, zeros, inputScales } = await readInt4Matrix(plan, layout, files, (name, firstRow, numRows) =>
    readRows(files, name, firstRow, numRows),
  );
  const parts = [
    [0, codes],
    [layout.scalesAt, scales],
    [layout.zerosAt ?? 0, zeros],
    [layout.inputScalesAt ?? 0, inputScales],
  ] as const;
  for (const [at, words] of parts) {
    if (words === undefined) continue;
    const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
    for (let from = 0; from < bytes.length; from += UPLOAD_PIECE_BYTES) {
      const piece = bytes.subarray(from, from + UPLOAD_PIECE_BYTES);
      await upload.write(base + BigInt(at + from), piece.length, (into) => into.set(piece));
    }
  }
}

/** Where elements go, and what is done once they are there. */
interface Target {
  readonly type: DeviceFloat;
  place(element: number): DevicePointer;
  finish(element: number, count: number): void;
}

function targetOf({ device, rows }: Filling, buffer: CudaBuffer, plan: Placed, columns: number): Target {
  const base = buffer.address + BigInt(plan.offset);
  const { type, scalesOffset } = plan;
  if (type === "int4") throw new Error("a matrix of 4 bits is filled as a whole");
  if (type !== "e4m3") {
    const place = (element: number): DevicePointer => base + BigInt(element * CUDA_TYPE_BYTES[type]);
    return { type, place, finish: () => undefined };
  }
  if (rows === undefined || scalesOffset === undefined)
    throw new Error("a matrix of codes without room for its scales");
  const scales = buffer.address + BigInt(scalesOffset);
  return {
    type: "bf16",
    place: () => rows.address,
    finish: (element, count) =>
      launchQuantizeRows(device.stream, {
        type: "bf16",
        x: rows.address,
        out: base + BigInt(element),
        quantized: { codes: "e4m3", per: "row", scales: scales + BigInt((4 * element) / columns) },
        numRows: count / columns,
        width: columns,
      }),
  };
}
