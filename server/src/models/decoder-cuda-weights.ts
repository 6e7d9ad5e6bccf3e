/**
 * Loads the weights of a decoder to a GPU: one allocation, filled through pinned memory. Matrices may become codes of 8 bits
 * with a scale per row, made on the device.
 */
import { launchQuantizeRows } from "../../kernels/quantize/quantize.cuda.ts";
import {
  convertFloats,
  type DeviceFloat,
  isSameFloat,
  STORED_BYTES,
  type StoredFloat,
  transposeFloats,
} from "../device/cuda/convert-floats.ts";
import type { CudaDevice } from "../device/cuda/cuda-device.ts";
import type { CudaBuffer } from "../device/cuda/cuda-memory.ts";
import { CUDA_TYPE_BYTES, type CudaTensor, layOut, tensorBytes } from "../device/cuda/cuda-tensor.ts";
import type { DevicePointer } from "../device/cuda/kernel-stream.ts";
import { UPLOAD_PIECE_BYTES, Upload } from "../device/cuda/upload.ts";
import type { StoredTensor, TensorSource } from "../formats/tensor-source.ts";
import type { DecoderConfig } from "./decoder-config.ts";
import type { ParsedDecoder } from "./parse-decoder-config.ts";
import {
  describeWeights,
  findPrefix,
  type LayerWeights,
  type Linear,
  type ModelWeights,
  type WeightPlan,
  type WeightSource,
} from "./weight-plan.ts";

export interface CudaWeights extends ModelWeights<CudaTensor> {
  readonly numBytes: number;
  close(): void;
}

/** What matrices of layers are kept as. */
export type CudaMatrixType = DeviceFloat | "e4m3";

interface Placed extends WeightPlan {
  readonly type: CudaMatrixType;
  readonly offset: number;
  /** Of the scales of its rows, where it is made of codes. */
  readonly scalesOffset: number | undefined;
}

/** 8-bit products want both sides of a matrix in whole groups of these. */
const CODE_STEP = 16;

export interface CudaWeightsPlan {
  readonly placed: readonly Placed[];
  readonly numBytes: number;
}

/**
 * What goes where, before anything is allocated. `type` is that of matrices and of what is added to their products;
 * `layerType` that of the matrices of layers.
 */
export function planCudaWeights(
  { config, weights: names }: ParsedDecoder,
  files: Pick<TensorSource, "tensors">,
  type: DeviceFloat,
  layerType: CudaMatrixType = type,
): CudaWeightsPlan {
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const plans: WeightPlan[] = [];
  const tree = describeWeights(config, names, prefix, (plan) => {
    plans.push(plan);
    return plan;
  });
  const { biases, matrices } = linearParts(tree);
  const typeOf = (plan: WeightPlan): CudaMatrixType => {
    if (matrices.has(plan))
      return layerType === "e4m3" && plan.shape.some((size) => size % CODE_STEP !== 0) ? type : layerType;
    return plan.kind === "exact" && !biases.has(plan) ? "f32" : type;
  };
  for (const { sources } of plans) for (const source of sources) expectSource(source, files);
  const typed = plans.map((plan) => ({ ...plan, type: typeOf(plan) }));
  const scaleSizes = typed.map((plan) => (plan.type === "e4m3" ? tensorBytes("f32", [plan.shape[0]]) : 0));
  const { offsets, numBytes } = layOut([...typed.map((plan) => tensorBytes(plan.type, plan.shape)), ...scaleSizes]);
  const placed = typed.map((plan, i) => ({
    ...plan,
    offset: offsets[i] ?? 0,
    scalesOffset: plan.type === "e4m3" ? offsets[typed.length + i] : undefined,
  }));
  return { placed, numBytes };
}

/** @throws Error naming a tensor that is missing or of another shape or type */
export async function loadCudaWeights(
  device: CudaDevice,
  { config, weights: names }: ParsedDecoder,
  files: TensorSource,
  { placed, numBytes }: CudaWeightsPlan,
): Promise<CudaWeights> {
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
  return { ...nameTensors(config, names, prefix, buffer, placed), numBytes, close: () => buffer.close() };
}

function nameTensors(
  config: DecoderConfig,
  names: ParsedDecoder["weights"],
  prefix: string,
  buffer: CudaBuffer,
  placed: readonly Placed[],
): ModelWeights<CudaTensor> {
  let next = 0;
  return describeWeights(config, names, prefix, () => {
    const plan = placed[next++];
    if (plan === undefined) throw new Error(`expected ${next} weights, planned ${placed.length}`);
    const scales = plan.scalesOffset === undefined ? undefined : buffer.address + BigInt(plan.scalesOffset);
    return { address: buffer.address + BigInt(plan.offset), type: plan.type, shape: plan.shape, scales };
  });
}

interface LinearParts {
  /** Of the products of layers, which add them in their own type; norms and logits are made in f32. */
  readonly biases: ReadonlySet<WeightPlan>;
  /** Of layers. */
  readonly matrices: ReadonlySet<WeightPlan>;
}

function linearParts(tree: ModelWeights<WeightPlan>): LinearParts {
  const biases = new Set<WeightPlan>();
  const matrices = new Set<WeightPlan>();
  for (const layer of tree.layers) {
    for (const { weight, bias } of linearsOf(layer)) {
      matrices.add(weight);
      if (bias !== undefined) biases.add(bias);
    }
  }
  return { biases, matrices };
}

function linearsOf({ qkv, attentionOut, mlp }: LayerWeights<WeightPlan>): readonly Linear<WeightPlan>[] {
  const dense = "router" in mlp ? mlp.shared?.mlp : mlp;
  return dense === undefined ? [qkv, attentionOut] : [qkv, attentionOut, dense.in, dense.out];
}

function expectSource({ name, shape }: WeightSource, files: Pick<TensorSource, "tensors">): StoredTensor {
  const stored = files.tensors.get(name);
  if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
  floatOf(stored);
  if (stored.shape.length === shape.length && shape.every((size, i) => size === stored.shape[i])) return stored;
  throw new Error(`tensor "${name}": expected [${shape.join(", ")}] from the config, got [${stored.shape.join(", ")}]`);
}

function floatOf({ name, dtype }: StoredTensor): StoredFloat {
  if (dtype === "F32" || dtype === "F16" || dtype === "BF16") return dtype;
  throw new Error(`tensor "${name}": expected F32, F16 or BF16 on a GPU, got ${dtype}`);
}

interface Filling {
  readonly device: CudaDevice;
  readonly upload: Upload;
  readonly rows: CudaBuffer | undefined;
  readonly files: TensorSource;
}

async function fill(filling: Filling, buffer: CudaBuffer, plan: Placed): Promise<void> {
  let element = 0;
  for (const source of plan.sources) {
    const stored = expectSource(source, filling.files);
    const numElements = stored.byteLength / STORED_BYTES[floatOf(stored)];
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

/** Where elements go, and what is done once they are there. */
interface Target {
  readonly type: DeviceFloat;
  place(element: number): DevicePointer;
  finish(element: number, count: number): void;
}

function targetOf({ device, rows }: Filling, buffer: CudaBuffer, plan: Placed, columns: number): Target {
  const base = buffer.address + BigInt(plan.offset);
  const { type, scalesOffset } = plan;
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

/** Gives what fills pieces, from an element on. What is transposed is read whole: that is one matrix. */
async function readerOf(
  files: TensorSource,
  stored: StoredTensor,
  source: WeightSource,
  type: DeviceFloat,
): Promise<(element: number, bytes: Uint8Array) => Promise<void> | void> {
  const from = floatOf(stored);
  if (source.change === "transpose") {
    const whole = await readTransposed(files, stored, from, type);
    return (element, bytes) => {
      const at = element * CUDA_TYPE_BYTES[type];
      bytes.set(whole.subarray(at, at + bytes.byteLength));
    };
  }
  const added = source.change === "add-one" ? 1 : 0;
  return async (element, bytes) => {
    const at = element * STORED_BYTES[from];
    if (isSameFloat(from, type) && added === 0) {
      await files.read(stored.name, bytes, at);
      return;
    }
    const count = bytes.byteLength / CUDA_TYPE_BYTES[type];
    const piece = new Uint8Array(new ArrayBuffer(count * STORED_BYTES[from]));
    await files.read(stored.name, piece, at);
    convertFloats(from, piece, type, bytes, added);
  };
}

async function readTransposed(
  files: TensorSource,
  stored: StoredTensor,
  from: StoredFloat,
  type: DeviceFloat,
): Promise<Uint8Array> {
  const [rows = 0, columns = 0] = stored.shape;
  const whole = new Uint8Array(new ArrayBuffer(stored.byteLength));
  await files.read(stored.name, whole);
  const turned = transposeFloats(whole, STORED_BYTES[from], rows, columns);
  const converted = new Uint8Array(new ArrayBuffer(rows * columns * CUDA_TYPE_BYTES[type]));
  convertFloats(from, turned, type, converted);
  return converted;
}
