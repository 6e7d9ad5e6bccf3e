/** Loads the weights of a decoder to a GPU: one allocation, filled through pinned memory. Floats only. */
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
import { UPLOAD_PIECE_BYTES, Upload } from "../device/cuda/upload.ts";
import type { StoredTensor, TensorSource } from "../formats/tensor-source.ts";
import type { DecoderConfig } from "./decoder-config.ts";
import type { ParsedDecoder } from "./parse-decoder-config.ts";
import {
  describeWeights,
  findPrefix,
  type LayerWeights,
  type ModelWeights,
  type WeightPlan,
  type WeightSource,
} from "./weight-plan.ts";

export interface CudaWeights extends ModelWeights<CudaTensor> {
  readonly numBytes: number;
  close(): void;
}

interface Placed extends WeightPlan {
  readonly type: DeviceFloat;
  readonly offset: number;
}

export interface CudaWeightsPlan {
  readonly placed: readonly Placed[];
  readonly numBytes: number;
}

/** What goes where, before anything is allocated. `type` is that of matrices and of what is added to their products. */
export function planCudaWeights(
  { config, weights: names }: ParsedDecoder,
  files: Pick<TensorSource, "tensors">,
  type: DeviceFloat,
): CudaWeightsPlan {
  const prefix = findPrefix(names, (tensor) => files.tensors.has(tensor));
  const plans: WeightPlan[] = [];
  const tree = describeWeights(config, names, prefix, (plan) => {
    plans.push(plan);
    return plan;
  });
  const biases = linearBiases(tree);
  const typed = plans.map((plan) => {
    for (const source of plan.sources) expectSource(source, files);
    const isExact = plan.kind === "exact" && !biases.has(plan);
    return { ...plan, type: isExact ? ("f32" as const) : type };
  });
  const { offsets, numBytes } = layOut(typed.map((plan) => tensorBytes(plan.type, plan.shape)));
  return { placed: typed.map((plan, i) => ({ ...plan, offset: offsets[i] ?? 0 })), numBytes };
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
  try {
    for (const plan of placed) await fill(upload, buffer, plan, files);
  } catch (error) {
    upload.close();
    buffer.close();
    throw error;
  }
  upload.close();
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
    return { address: buffer.address + BigInt(plan.offset), type: plan.type, shape: plan.shape };
  });
}

/** Biases of products are added by the product, in its own type; those of norms are not. */
function linearBiases(tree: ModelWeights<WeightPlan>): ReadonlySet<WeightPlan> {
  const found = new Set<WeightPlan>();
  const add = (plan: WeightPlan | undefined): void => {
    if (plan !== undefined) found.add(plan);
  };
  add(tree.output.bias);
  for (const layer of tree.layers) for (const plan of biasesOf(layer)) add(plan);
  return found;
}

function biasesOf({ qkv, attentionOut, mlp }: LayerWeights<WeightPlan>): readonly (WeightPlan | undefined)[] {
  const dense = "router" in mlp ? mlp.shared?.mlp : mlp;
  return [qkv.bias, attentionOut.bias, dense?.in.bias, dense?.out.bias];
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

async function fill(upload: Upload, buffer: CudaBuffer, plan: Placed, files: TensorSource): Promise<void> {
  let to = buffer.address + BigInt(plan.offset);
  for (const source of plan.sources) {
    const stored = expectSource(source, files);
    if (source.change === "transpose") await fillTransposed(upload, to, stored, plan.type, files);
    else await fillPieces(upload, to, stored, plan.type, source.change === "add-one" ? 1 : 0, files);
    const count = stored.byteLength / STORED_BYTES[floatOf(stored)];
    to += BigInt(count * CUDA_TYPE_BYTES[plan.type]);
  }
}

async function fillPieces(
  upload: Upload,
  to: bigint,
  stored: StoredTensor,
  type: DeviceFloat,
  added: number,
  files: TensorSource,
): Promise<void> {
  const from = floatOf(stored);
  const elementBytes = CUDA_TYPE_BYTES[type];
  const numElements = stored.byteLength / STORED_BYTES[from];
  const pieceElements = UPLOAD_PIECE_BYTES / elementBytes;
  for (let at = 0; at < numElements; at += pieceElements) {
    const count = Math.min(pieceElements, numElements - at);
    await upload.write(to + BigInt(at * elementBytes), count * elementBytes, async (bytes) => {
      if (isSameFloat(from, type) && added === 0) {
        await files.read(stored.name, bytes, at * STORED_BYTES[from]);
        return;
      }
      const piece = new Uint8Array(new ArrayBuffer(count * STORED_BYTES[from]));
      await files.read(stored.name, piece, at * STORED_BYTES[from]);
      convertFloats(from, piece, type, bytes, added);
    });
  }
}

/** Read whole: that is one matrix. */
async function fillTransposed(
  upload: Upload,
  to: bigint,
  stored: StoredTensor,
  type: DeviceFloat,
  files: TensorSource,
): Promise<void> {
  const from = floatOf(stored);
  const [rows = 0, columns = 0] = stored.shape;
  const whole = new Uint8Array(new ArrayBuffer(stored.byteLength));
  await files.read(stored.name, whole);
  const turned = transposeFloats(whole, STORED_BYTES[from], rows, columns);
  const converted = new Uint8Array(new ArrayBuffer(rows * columns * CUDA_TYPE_BYTES[type]));
  convertFloats(from, turned, type, converted);
  for (let at = 0; at < converted.byteLength; at += UPLOAD_PIECE_BYTES) {
    const piece = converted.subarray(at, at + UPLOAD_PIECE_BYTES);
    await upload.write(to + BigInt(at), piece.byteLength, (bytes) => bytes.set(piece));
  }
}
