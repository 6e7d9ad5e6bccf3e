/** Writes small GGUF files for tests, valid or deliberately broken. Source: ggml/docs/gguf.md. */

export type GgufField = readonly [key: string, type: number, value: unknown];
export interface GgufTensorField {
  readonly name: string;
  /** In file order: innermost dimension first. */
  readonly sizes: readonly (number | bigint)[];
  readonly type: number;
  readonly data: Uint8Array;
  /** Undefined: directly after the previous tensor. */
  readonly offset?: number | bigint;
}

export interface GgufDraft {
  readonly fields: readonly GgufField[];
  readonly tensors: readonly GgufTensorField[];
  readonly version?: number;
  readonly numTensors?: bigint;
  readonly numFields?: bigint;
  readonly alignment?: number;
}

export const STRING = 8;
export const ARRAY = 9;
export const U32 = 4;
export const F32 = 6;

export function ggufBytes({ fields, tensors, version = 3, alignment = 32, ...counts }: GgufDraft): Uint8Array {
  const header: Uint8Array[] = [
    u32(0x46554747),
    u32(version),
    u64(counts.numTensors ?? BigInt(tensors.length)),
    u64(counts.numFields ?? BigInt(fields.length)),
    ...fields.map(([key, type, value]) => Buffer.concat([text(key), u32(type), valueBytes(type, value)])),
  ];
  const data: Uint8Array[] = [];
  let end = 0;
  for (const tensor of tensors) {
    const sizes = tensor.sizes.map((size) => u64(BigInt(size)));
    header.push(text(tensor.name), u32(sizes.length), ...sizes, u32(tensor.type), u64(BigInt(tensor.offset ?? end)));
    data.push(padded(tensor.data, alignment));
    end += padded(tensor.data, alignment).byteLength;
  }
  return Buffer.concat([padded(Buffer.concat(header), alignment), ...data]);
}

export function text(value: string): Uint8Array {
  return Buffer.concat([u64(BigInt(Buffer.byteLength(value))), Buffer.from(value)]);
}

export function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

export function u64(value: bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(value).buffer);
}

/** Bytes are written unchanged; arrays are `[itemType, items]`. */
function valueBytes(type: number, value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (type === STRING) return text(String(value));
  if (type === F32) return new Uint8Array(Float32Array.of(Number(value)).buffer);
  if (type !== ARRAY) return u32(Number(value));
  const [itemType, items] = value as [number, readonly unknown[]];
  return Buffer.concat([u32(itemType), u64(BigInt(items.length)), ...items.map((item) => valueBytes(itemType, item))]);
}

function padded(bytes: Uint8Array, alignment: number): Uint8Array {
  return Buffer.concat([bytes, new Uint8Array((alignment - (bytes.byteLength % alignment)) % alignment)]);
}
