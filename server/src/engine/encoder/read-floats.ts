/** Reads small tensors of files whole, as f32: those of heads behind an encoder. */
import { convertElements } from "../../device/cpu/convert-elements.ts";
import type { CpuDevice } from "../../device/cpu/cpu-device.ts";
import type { TensorSource } from "../../formats/tensors/tensor-source.ts";
import { weightTypeOf } from "../../models/weights/weight-types.ts";

/** @throws Error naming a tensor that is missing, of another shape, or of a type that holds no weights */
export async function readFloats(
  { ggml }: Pick<CpuDevice, "ggml">,
  files: TensorSource,
  name: string,
  shape: readonly number[],
): Promise<Float32Array> {
  const stored = files.tensors.get(name);
  if (stored === undefined) throw new Error(`the weights lack tensor "${name}" [${shape.join(", ")}]`);
  if (stored.shape.length !== shape.length || !shape.every((size, i) => size === stored.shape[i]))
    throw new Error(`tensor "${name}": expected [${shape.join(", ")}], got [${stored.shape.join(", ")}]`);
  const type = weightTypeOf(stored.dtype);
  if (type === undefined) throw new Error(`tensor "${name}": expected F32, F16 or BF16, got ${stored.dtype}`);
  const bytes = new Uint8Array(stored.byteLength);
  await files.read(name, bytes);
  const { buffer, byteOffset, byteLength } = convertElements(ggml, type, "f32", bytes);
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}
