/**
 * The header of a rank's engine file: magic, version, length, JSON, then aligned tensors. It states the device for
 * which the weights were packed. Source: a format of our own, docs/decisions/030-checkpoints-and-engines.md; CRC-32 of ISO 3309.
 * Pure.
 */
import { PACKED_BLOCKS, type PackedDtype, tensorBytes } from "../tensors/tensor-source.ts";

export const ENGINE_MAGIC = "NEREIDEN";
/** Increased when an older reader would misread the file. */
export const ENGINE_FORMAT = 1;
/** Magic, format, checksum of the JSON, length of the JSON, all little-endian. */
export const ENGINE_PREFIX_BYTES = 24;
/** Alignment of tensors, so that they can be read or mapped in place. */
export const ENGINE_ALIGNMENT = 4096;
/** One line per tensor; models of a hundred layers have some thousand. */
const MAX_HEADER_BYTES = 64 << 20;
const MAX_DIMENSIONS = 3;

/** "U8": part of an integer matrix. */
export type EngineDtype = PackedDtype | "F32" | "F16" | "BF16" | "U8";

/** Target of the packed weights: on another device they would be slow or wrong. */
export interface EngineTarget {
  readonly device: string;
  /** Version of the library whose block layouts these are. */
  readonly kernels: string;
}

/** Memory layout of a matrix: as in the file, or repacked for the processor's vector units. */
export type GemmLayout = "plain" | "repacked";

export interface EngineTensor {
  readonly name: string;
  readonly dtype: EngineDtype;
  readonly shape: readonly number[];
  /** Byte offset from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
  readonly crc32: number;
  /** The fastest layout; undefined when not measured: the device decides. */
  readonly layout?: GemmLayout | undefined;
}

/** Thread counts measured where the engine was built. Valid for the same processor model only. */
export interface EngineThreads {
  readonly processor: string;
  readonly numProcessors: number;
  /** Threads for decoding one token, and for prefill. */
  readonly decode: number;
  readonly prefill: number;
}

/** An INT4 matrix, whose parts are tensors of their own. */
export interface EngineIntegers {
  readonly name: string;
  readonly outputs: number;
  readonly inputs: number;
  readonly groupSize: number;
  readonly hasZeros: boolean;
  readonly hasInputScales: boolean;
}

/** The fastest cuBLASLt algorithm for GEMMs of one shape. */
export interface EngineGemm {
  readonly shape: string;
  /** The opaque algorithm struct of cuBLASLt, in hexadecimal digits. */
  readonly algorithm: string;
  readonly workspaceBytes: number;
}

export interface EngineHeader {
  readonly target: EngineTarget;
  readonly threads?: EngineThreads | undefined;
  readonly integers?: readonly EngineIntegers[] | undefined;
  /** Default weight type of layer matrices on a GPU; undefined: as stored. */
  readonly matrices?: "e4m3" | "int4" | undefined;
  readonly products?: readonly EngineGemm[] | undefined;
  readonly tensors: readonly EngineTensor[];
}

/** The file has another format version, or is not an engine. */
export interface EnginePrefix {
  readonly format: number;
  readonly crc32: number;
  readonly headerBytes: number;
}

const PLAIN_TYPES: readonly string[] = ["F32", "F16", "BF16", "U8"];
const REBUILD = "build it again: nereid build --checkpoint_dir <checkpoint> --output_dir <this folder>";

/** @throws Error with instructions to rebuild the engine */
export function parseEnginePrefix(bytes: Uint8Array, fileBytes: number, at: string): EnginePrefix {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (buffer.length < ENGINE_PREFIX_BYTES || buffer.toString("latin1", 0, 8) !== ENGINE_MAGIC) {
    throw new Error(`${at}: expected an engine of Nereid; those of TensorRT are not read: ${REBUILD}`);
  }
  const format = buffer.readUInt32LE(8);
  if (format !== ENGINE_FORMAT) {
    throw new Error(`${at}: the engine has format ${format}, this version reads ${ENGINE_FORMAT}: ${REBUILD}`);
  }
  const headerBytes = Number(buffer.readBigUInt64LE(16));
  if (headerBytes > MAX_HEADER_BYTES || headerBytes > fileBytes - ENGINE_PREFIX_BYTES) {
    throw new Error(`${at}: expected a header of at most ${MAX_HEADER_BYTES} bytes, got ${headerBytes}: ${REBUILD}`);
  }
  return { format, crc32: buffer.readUInt32LE(12), headerBytes };
}

/** @throws Error naming the mismatch */
export function parseEngineHeader(json: string, fileBytes: number, at: string): EngineHeader {
  const { target, threads, integers, matrices, products, tensors } = JSON.parse(json) as {
    target?: Partial<EngineTarget>;
    threads?: unknown;
    integers?: unknown;
    matrices?: unknown;
    products?: unknown;
    tensors?: unknown;
  };
  if (typeof target?.device !== "string" || typeof target.kernels !== "string" || !Array.isArray(tensors)) {
    throw new Error(`${at}: expected a target and tensors in the header: ${REBUILD}`);
  }
  const parsed = tensors.map((tensor: unknown) => parseTensor(tensor, fileBytes, at));
  const { device, kernels } = target;
  return {
    target: { device, kernels },
    threads: parseThreads(threads),
    integers: listOf(integers).map((one) => parseIntegers(one, at)),
    matrices: matrices === "e4m3" || matrices === "int4" ? matrices : undefined,
    products: listOf(products).flatMap(parseGemm),
    tensors: parsed,
  };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function parseIntegers(value: unknown, at: string): EngineIntegers {
  const { name, outputs, inputs, groupSize, hasZeros, hasInputScales } = (value ?? {}) as Partial<EngineIntegers>;
  const isWhole = isCount(inputs) && isCount(groupSize) && inputs % groupSize === 0 && inputs % 2 === 0;
  if (typeof name === "string" && isCount(outputs) && isWhole) {
    return { name, outputs, inputs, groupSize, hasZeros: hasZeros === true, hasInputScales: hasInputScales === true };
  }
  throw new Error(`${at}: a matrix of integers does not fit the file: ${REBUILD}`);
}

/** Entries that are not understood are dropped and measured again. */
function parseGemm(value: unknown): readonly EngineGemm[] {
  const { shape, algorithm, workspaceBytes } = (value ?? {}) as Partial<EngineGemm>;
  const isHex = typeof algorithm === "string" && /^(?:[0-9a-f]{2}){1,256}$/.test(algorithm);
  if (typeof shape !== "string" || !isHex || !Number.isSafeInteger(workspaceBytes)) return [];
  return [{ shape, algorithm, workspaceBytes: workspaceBytes ?? 0 }];
}

/** Undefined when absent or not numeric: the device then chooses. */
function parseThreads(value: unknown): EngineThreads | undefined {
  const { processor, numProcessors, decode, prefill } = (value ?? {}) as Partial<EngineThreads>;
  if (typeof processor !== "string" || !isCount(numProcessors) || !isCount(decode) || !isCount(prefill))
    return undefined;
  return { processor, numProcessors, decode, prefill };
}

function parseTensor(value: unknown, fileBytes: number, at: string): EngineTensor {
  const tensor = value as Partial<EngineTensor> | null;
  const { name, dtype, shape, offset, byteLength, crc32, layout } = tensor ?? {};
  const isKnown = typeof dtype === "string" && (PLAIN_TYPES.includes(dtype) || Object.hasOwn(PACKED_BLOCKS, dtype));
  const isSize = (size: unknown): size is number => Number.isSafeInteger(size) && (size as number) >= 0;
  if (
    typeof name === "string" &&
    isKnown &&
    Array.isArray(shape) &&
    shape.length <= MAX_DIMENSIONS &&
    shape.every(isSize) &&
    isSize(offset) &&
    isSize(byteLength) &&
    isSize(crc32) &&
    byteLength === tensorBytes(dtype, shape) &&
    offset + byteLength <= fileBytes
  ) {
    const known = layout === "plain" || layout === "repacked" ? { layout } : {};
    return { name, dtype, shape, offset, byteLength, crc32, ...known };
  }
  throw new Error(
    `${at}: tensor "${String(name).slice(0, 80)}" does not fit the file, which may be cut off: ${REBUILD}`,
  );
}

/** @throws Error naming both targets and the remedy */
export function expectTarget(built: EngineTarget, own: EngineTarget, at: string): void {
  if (built.device === own.device && built.kernels === own.kernels) return;
  const name = ({ device, kernels }: EngineTarget): string => `${device} with ${kernels}`;
  throw new Error(`${at}: the engine was built for ${name(built)}, this is ${name(own)}: ${REBUILD}`);
}

export function alignedOffset(byteOffset: number): number {
  return Math.ceil(byteOffset / ENGINE_ALIGNMENT) * ENGINE_ALIGNMENT;
}
