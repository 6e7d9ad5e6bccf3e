/** Writes safetensors files for tests (safetensors README, "Format"). */
import type { SafetensorsDtype } from "./safetensors-header.ts";

export interface TensorDraft {
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly data: Float32Array | Int32Array | Uint16Array | Uint8Array | Int8Array | BigInt64Array;
}

export function safetensorsBytes(tensors: Readonly<Record<string, TensorDraft>>): Uint8Array {
  let end = 0;
  const entries = Object.entries(tensors).map(([name, { dtype, shape, data }]) => {
    const begin = end;
    end += data.byteLength;
    return [name, { dtype, shape, data_offsets: [begin, end] }] as const;
  });
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(header.byteLength));
  const data = Object.values(tensors).map(({ data: { buffer, byteOffset, byteLength } }) =>
    Buffer.from(buffer, byteOffset, byteLength),
  );
  return Buffer.concat([prefix, header, ...data]);
}
