/**
 * Puts the weights of a decoder on a GPU: one allocation, filled through pinned memory. Matrices may become FP8 (E4M3) with a scale
 * per row, quantized on the device, or INT4.
 */
import { launchQuantizeRows } from "../../../kernels/quantize/quantize.cuda.ts";
import type { DeviceFloat } from "../../device/cuda/convert-floats.ts";
import type { CudaDevice } from "../../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../../device/cuda/cuda-memory.ts";
import { CUDA_TYPE_BYTES, type CudaTensor, cudaTensorBytes, layOut } from "../../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { UPLOAD_PIECE_BYTES, Upload } from "../../device/cuda/upload.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { ParsedDecoder } from "../config/parse-decoder-config.ts";
import { expectSource, loadWeights, type WeightSink } from "../weights/load-weights.ts";
import { listWeights, nameTensors, type WeightList } from "../weights/weight-list.ts";
import type { LayerWeights, Linear, ModelWeights, WeightPlan } from "../weights/weight-plan.ts";
import { type Int4Layout, type Int4Shape, int4Tensor, planInt4Matrix, readInt4Matrix } from "./int4.ts";
import { fillMxfp4, isMxfp4, type Mxfp4Places, mxfp4ScaleBytes } from "./mxfp4.ts";
import { floatReader, readRows, storedFloat } from "./read-floats.ts";

export interface CudaWeights extends ModelWeights<CudaTensor> {
  readonly numBytes: number;
  close(): void;
}

/** Storage types of layer matrices. */
export type CudaMatrixType = DeviceFloat | "e4m3" | "int4" | "mxfp4";

export interface CudaMatrixTypes {
  /** Undefined: INT4, and MXFP4 of experts, if the files have it; otherwise the type of activations. */
  readonly layers?: CudaMatrixType | undefined;
  /** The matrix of logits becomes FP8 with a scale per row. */
  readonly quantizesOutput?: boolean | undefined;
}

interface Typed extends WeightPlan {
  readonly type: CudaMatrixType;
  /** FP8 codes in the order that grouped GEMMs take. */
  readonly isInterleaved?: boolean | undefined;
  /** Layout of an INT4 matrix. */
  readonly int4?: Int4Layout | undefined;
}

interface Placed extends Typed {
  readonly offset: number;
  /** Offset of the row scales of a matrix of codes. */
  readonly scalesOffset: number | undefined;
}

/** FP8 GEMMs take matrices whose two sides are multiples of this. */
const CODE_STEP = 16;

export interface CudaWeightsPlan {
  readonly list: WeightList;
  /** In the order of the list. */
  readonly placed: readonly Placed[];
  /** Shapes of the INT4 matrices. */
  readonly int4Shapes: readonly Int4Shape[];
  readonly numBytes: number;
}

/** Decides types and places before anything is allocated. `type` is that of matrices and of their biases. */
export function planCudaWeights(
  parsed: ParsedDecoder,
  files: Pick<TensorSource, "tensors" | "integers" | "mxfp4">,
  type: DeviceFloat,
  { layers: layerType, quantizesOutput = false }: CudaMatrixTypes = {},
): CudaWeightsPlan {
  const list = listWeights(parsed, files, quantizesOutput);
  const { plans, tree } = list;
  const parts = linearParts(tree);
  const codedOutput = quantizesOutput ? tree.output.weight : undefined;
  for (const { sources } of plans) {
    for (const source of sources) expectSource(source, files, (stored) => storedFloat(stored, files));
  }
  const typed = plans.map((plan) =>
    plan === codedOutput ? codedPlan(plan, type) : typePlan(plan, parts, files, type, layerType),
  );
  const scaleSizes = typed.map(({ type, shape }) => scaleBytes(type, shape));
  const sizes = typed.map((plan) => plan.int4?.numBytes ?? cudaTensorBytes(plan.type, plan.shape));
  const { offsets, numBytes } = layOut([...sizes, ...scaleSizes]);
  const placed = typed.map((plan, i) => ({
    ...plan,
    offset: offsets[i] ?? 0,
    scalesOffset: (scaleSizes[i] ?? 0) > 0 ? offsets[typed.length + i] : undefined,
  }));
  const int4Shapes = typed.flatMap(({ int4, shape: [outputs, inputs = 0] }) =>
    int4 === undefined ? [] : [{ outputs, inputs, hasInputScales: int4.hasInputScales }],
  );
  return { list, placed, int4Shapes, numBytes };
}

/** Size of the scales beside the codes of a matrix. */
function scaleBytes(type: CudaMatrixType, shape: readonly number[]): number {
  if (type === "mxfp4") return mxfp4ScaleBytes(shape);
  return type === "e4m3" ? cudaTensorBytes("f32", shape.slice(0, -1)) : 0;
}

/** @throws Error when FP8 GEMMs do not take the matrix */
function codedPlan(plan: WeightPlan, type: DeviceFloat): Typed {
  if (type === "bf16" && plan.shape.every((size) => size % CODE_STEP === 0)) return { ...plan, type: "e4m3" };
  throw new Error(
    `an FP8 output matrix: expected bf16 and multiples of ${CODE_STEP}, got ${type} and ${plan.shape.join(" x ")}`,
  );
}

function typePlan(
  plan: WeightPlan,
  { biases, matrices, besideExperts, experts }: LinearParts,
  files: Pick<TensorSource, "integers" | "mxfp4">,
  type: DeviceFloat,
  layerType: CudaMatrixType | undefined,
): Typed {
  const ofKind = plan.kind === "exact" && !biases.has(plan) && !besideExperts.has(plan) ? "f32" : type;
  if (experts.has(plan)) return typeExperts(plan, files, type, layerType);
  if (!matrices.has(plan)) return { ...plan, type: ofKind };
  const int4 =
    type === "bf16" && (layerType === undefined || layerType === "int4")
      ? planInt4Matrix(plan, files, layerType === "int4")
      : undefined;
  if (int4 !== undefined) return { ...plan, type: "int4", int4 };
  const canBeCoded = !besideExperts.has(plan) && plan.shape.every((size) => size % CODE_STEP === 0);
  const isCoded = layerType === "e4m3" && canBeCoded;
  const float = layerType === undefined || !isFloat(layerType) ? type : layerType;
  return { ...plan, type: isCoded ? "e4m3" : float };
}

/** MXFP4 codes stay: FP8 would be larger. Rows of activations of any type but bf16 are multiplied in that type. */
function typeExperts(
  plan: WeightPlan,
  files: Pick<TensorSource, "mxfp4">,
  type: DeviceFloat,
  layerType: CudaMatrixType | undefined,
): Typed {
  const keepsCodes = type === "bf16" && (layerType === undefined || layerType === "e4m3");
  if (keepsCodes && isMxfp4(plan, files)) return { ...plan, type: "mxfp4" };
  const [outputs = 0, inputs = 0] = plan.shape.slice(1);
  const canBeCoded = type === "bf16" && outputs % CODE_STEP === 0 && inputs % CODE_STEP === 0;
  return layerType === "e4m3" && canBeCoded ? { ...plan, type: "e4m3", isInterleaved: true } : { ...plan, type };
}

/** @throws Error naming a tensor that cannot be read */
export async function loadCudaWeights(
  device: CudaDevice,
  files: TensorSource,
  { list, placed, numBytes }: CudaWeightsPlan,
): Promise<CudaWeights> {
  const buffer = device.allocate("weights", numBytes);
  const upload = new Upload(device);
  // Rows before they are quantized.
  const rows = placed.some(({ type }) => type === "e4m3")
    ? device.allocate("rows of weights", UPLOAD_PIECE_BYTES)
    : undefined;
  try {
    await loadWeights(placed, files, cudaSink({ device, upload, rows, files, base: buffer.address }));
  } catch (error) {
    buffer.close();
    throw error;
  } finally {
    upload.close();
    rows?.close();
  }
  const tensors = placed.map((plan) => tensorAt(buffer.address, plan));
  return { ...nameTensors(list, tensors), numBytes, close: () => buffer.close() };
}

function tensorAt(base: DevicePointer, { offset, scalesOffset, type, shape, int4 }: Placed): CudaTensor {
  const address = base + BigInt(offset);
  if (int4 !== undefined) return int4Tensor(address, shape, int4);
  return { address, type, shape, scales: scalesOffset === undefined ? undefined : base + BigInt(scalesOffset) };
}

interface LinearParts {
  /** Biases of layer GEMMs, which add them in the type of activations; norms and logits are computed in f32. */
  readonly biases: ReadonlySet<WeightPlan>;
  /** Matrices of layers, without those of experts. */
  readonly matrices: ReadonlySet<WeightPlan>;
  /** Stacked matrices of experts. */
  readonly experts: ReadonlySet<WeightPlan>;
  /** The router and the shared expert: they read the rows that experts read, which are never FP8. */
  readonly besideExperts: ReadonlySet<WeightPlan>;
}

function linearParts(tree: ModelWeights<WeightPlan>): LinearParts {
  const biases = new Set<WeightPlan>();
  const matrices = new Set<WeightPlan>();
  const besideExperts = new Set<WeightPlan>();
  const experts = new Set<WeightPlan>();
  for (const layer of tree.layers) {
    if ("router" in layer.mlp) experts.add(layer.mlp.in).add(layer.mlp.out);
    for (const plan of besideExpertsOf(layer)) besideExperts.add(plan);
    for (const { weight, bias } of linearsOf(layer)) {
      matrices.add(weight);
      if (bias !== undefined) biases.add(bias);
    }
  }
  return { biases, matrices, besideExperts, experts };
}

function linearsOf({ qkv, oProj, mlp }: LayerWeights<WeightPlan>): readonly Linear<WeightPlan>[] {
  const dense = "router" in mlp ? mlp.shared?.mlp : mlp;
  return dense === undefined ? [qkv, oProj] : [qkv, oProj, dense.in, dense.out];
}

function besideExpertsOf({ mlp }: LayerWeights<WeightPlan>): readonly WeightPlan[] {
  if (!("router" in mlp)) return [];
  const { router, shared } = mlp;
  if (shared === undefined) return [router];
  const { gate, mlp: dense } = shared;
  return [router, ...(gate === undefined ? [] : [gate]), dense.in.weight, dense.out.weight];
}

interface Filling {
  readonly device: CudaDevice;
  readonly upload: Upload;
  readonly rows: CudaBuffer | undefined;
  readonly files: TensorSource;
  readonly base: DevicePointer;
}

/** Writes floats through pinned memory; FP8 matrices are quantized on the device, piece by piece. */
function cudaSink(filling: Filling): WeightSink<Placed> {
  const { files, upload } = filling;
  return {
    fillWhole: async (plan) => {
      if (plan.int4 !== undefined) await fillInt4(filling, plan, plan.int4);
      if (plan.type === "mxfp4") await fillMxfp4(upload, plan, files, placesOf(filling, plan));
      return plan.int4 !== undefined || plan.type === "mxfp4";
    },
    typeOf: ({ type }) => floatOf(type),
    maxElements: (type) => Math.floor(UPLOAD_PIECE_BYTES / (type === "f32" ? 4 : 2)),
    ...floatReader(files),
    write: async (plan, element, count, read) => {
      const { place, finish, elementBytes } = targetOf(filling, plan);
      await upload.write(place(element), count * elementBytes, async (room) => {
        await read(room);
      });
      finish(element, count);
    },
  };
}

function isFloat(type: CudaMatrixType): type is DeviceFloat {
  return type === "f32" || type === "bf16";
}

/** Rows of FP8 matrices come as bf16. */
function floatOf(type: CudaMatrixType): DeviceFloat {
  return type === "e4m3" || type === "int4" || type === "mxfp4" ? "bf16" : type;
}

function placesOf({ base }: Filling, { offset, scalesOffset }: Placed): Mxfp4Places {
  if (scalesOffset === undefined) throw new Error("an MXFP4 matrix without room for its scales");
  return { codes: base + BigInt(offset), scales: base + BigInt(scalesOffset) };
}

async function fillInt4({ files, upload, base }: Filling, plan: Placed, layout: Int4Layout): Promise<void> {
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
      await upload.write(base + BigInt(plan.offset + at + from), piece.length, (into) => into.set(piece));
    }
  }
}

/** Destination of elements, and the work after they have arrived. */
interface Target {
  readonly elementBytes: number;
  place(element: number): DevicePointer;
  finish(element: number, count: number): void;
}

function targetOf({ device, rows, base }: Filling, plan: Placed): Target {
  const { offset, scalesOffset, type, shape, isInterleaved = false } = plan;
  const at = base + BigInt(offset);
  const elementBytes = CUDA_TYPE_BYTES[floatOf(type)];
  if (type !== "e4m3") {
    return { elementBytes, place: (element) => at + BigInt(element * elementBytes), finish: () => undefined };
  }
  if (rows === undefined || scalesOffset === undefined) throw new Error("an FP8 matrix without room for its scales");
  const columns = shape.at(-1) ?? 1;
  const scales = base + BigInt(scalesOffset);
  return {
    elementBytes,
    place: () => rows.address,
    finish: (element, count) =>
      launchQuantizeRows(device.stream, {
        type: "bf16",
        x: rows.address,
        out: at + BigInt(element),
        quantized: { codes: "e4m3", per: "row", scales: scales + BigInt((4 * element) / columns) },
        isInterleaved,
        numRows: count / columns,
        width: columns,
      }),
  };
}
