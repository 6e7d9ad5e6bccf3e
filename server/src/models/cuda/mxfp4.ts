/** Experts that checkpoints store as MXFP4 (gpt-oss) keep their codes on a GPU. Source: OCP Microscaling Formats (MX) v1.0. */
import { packMxfp4, packMxfp4Scales } from "../../../kernels/expert-gemm/pack-mxfp4.ts";
import type { DevicePointer } from "../../device/cuda/kernel-stream.ts";
import { UPLOAD_PIECE_BYTES, type Upload } from "../../device/cuda/upload.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import type { WeightPlan } from "../weights/weight-plan.ts";

export interface Mxfp4Places {
  readonly codes: DevicePointer;
  readonly scales: DevicePointer;
}

/** Inputs that share a scale. */
const BLOCK = 32;
/** Blocks of outputs of the skinny kernel. */
const OUTPUT_STEP = 16;

/** Whether the files hold the experts as codes, in a shape that the kernels take. */
export function isMxfp4({ sources, shape }: WeightPlan, { mxfp4 }: Pick<TensorSource, "mxfp4">): boolean {
  const [, outputs = 0, inputs = 0] = shape;
  const [source] = sources;
  const fits = outputs % OUTPUT_STEP === 0 && inputs % BLOCK === 0;
  return fits && sources.length === 1 && source !== undefined && mxfp4?.has(source.name) === true;
}

export function mxfp4ScaleBytes(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1) / BLOCK;
}

/** Expert by expert. @throws Error for a scale that the kernels do not take */
export async function fillMxfp4(
  upload: Upload,
  { sources: [source], shape: [numExperts = 0] }: WeightPlan,
  { mxfp4 }: Pick<TensorSource, "mxfp4">,
  { codes, scales }: Mxfp4Places,
): Promise<void> {
  const stored = source && mxfp4?.get(source.name);
  if (stored === undefined) throw new Error(`the weights lack "${source?.name}" as MXFP4`);
  for (let expert = 0; expert < numExperts; expert++) {
    const { blocks, exponents } = await stored.readExpert(expert);
    await write(upload, codes + BigInt(expert * blocks.length), packMxfp4(blocks));
    await write(upload, scales + BigInt(expert * exponents.length), packMxfp4Scales(exponents));
  }
}

async function write(upload: Upload, to: DevicePointer, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; at += UPLOAD_PIECE_BYTES) {
    const piece = bytes.subarray(at, at + UPLOAD_PIECE_BYTES);
    await upload.write(to + BigInt(at), piece.length, (into) => into.set(piece));
  }
}
