/**
 * Opens ggml, the library of CPU kernels, and verifies its version. Source: ggml.h, version 0.25. Knows no tensor,
 * graph or model.
 */

import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { copyFromMemory, functionAt, type NativeLibrary, openLibrary, structType } from "../ffi.ts";
import { GGML_BLOCK_TYPES, type GgmlBlockType } from "./block-types.ts";
import {
  BASE_SIGNATURES,
  CPU_SIGNATURES,
  DEQUANTIZE_SIGNATURES,
  type GgmlBase,
  type GgmlCpu,
  type GgmlDequantizers,
  type GgmlRegistry,
  REGISTRY_SIGNATURES,
  type SignatureTable,
} from "./functions.ts";

type PlainType = "f32" | "f16" | "i32" | "bf16";
export type GgmlType = PlainType | GgmlBlockType;

const PLAIN_TYPES: Readonly<Record<PlainType, { readonly number: number; readonly numBytes: number }>> = {
  f32: { number: 0, numBytes: 4 },
  f16: { number: 1, numBytes: 2 },
  i32: { number: 26, numBytes: 4 },
  bf16: { number: 30, numBytes: 2 },
};
const ALL_TYPES = Object.entries({ ...PLAIN_TYPES, ...GGML_BLOCK_TYPES });

/** ggml_type of ggml.h, for the types that Nereid stores or computes with. */
export const GGML_TYPES: Readonly<Record<GgmlType, number>> = Object.fromEntries(
  ALL_TYPES.map(([name, { number }]) => [name, number]),
) as Record<GgmlType, number>;

/** Elements and bytes of a block; a block of unquantized types is one element. */
export const GGML_BLOCKS: Readonly<Record<GgmlType, { readonly numElements: number; readonly numBytes: number }>> =
  Object.fromEntries(
    ALL_TYPES.map(([name, type]) => {
      const numElements = "numElements" in type ? type.numElements : 1;
      return [name, { numElements, numBytes: type.numBytes }];
    }),
  ) as Record<GgmlType, { numElements: number; numBytes: number }>;

export interface Ggml {
  readonly directory: string;
  readonly version: string;
  readonly base: GgmlBase;
  /** Dequantize rows of block types to f32. */
  readonly dequantize: GgmlDequantizers;
  readonly cpu: GgmlCpu;
  readonly device: bigint;
  /** Silences ggml's stderr output during `work`. */
  quietly<T>(work: () => T): T;
  /** Additional buffer types, which repack matrices for this processor; the best first. */
  extraBufferTypes(): readonly bigint[];
  /** Devices of other backends that lie in the same folder, integrated ones last. */
  gpus(): readonly GgmlGpu[];
  /** A new CPU backend: the state of one stream of graphs. */
  createBackend(): bigint;
}

export interface GgmlGpu {
  readonly name: string;
  readonly freeBytes: number;
}

/** Signatures and enum values are those of this series; another one may have moved them. */
const VERSION_PATTERN = /^0\.25\./;
/** sizeof(ggml_object) + sizeof(ggml_tensor): changes when a field of either does. */
const TENSOR_OVERHEAD_BYTES = 368;
/** enum ggml_backend_dev_type. */
const CPU_DEVICE_TYPE = 0;
const GPU_DEVICE_TYPES = [1, 2];
/** More than ggml has. */
const MAX_EXTRA_BUFFER_TYPES = 16;

// Named once per process: koffi's type names are global.
structType("GgmlInitParams", { mem_size: "size_t", mem_buffer: "void*", no_alloc: "bool" });

/** Loads ggml from `directory`, or from the result of `findGgmlDirectory()`. @throws Error naming what is missing */
export function openGgml(directory: string = findGgmlDirectory()): Ggml {
  const baseLibrary = openLibrary(join(directory, "libggml-base.so"));
  const base = bindAll(baseLibrary, BASE_SIGNATURES);
  checkRelease(base, directory);
  const registry = bindAll(openLibrary(join(directory, registryFile(directory))), REGISTRY_SIGNATURES);
  const quietly = silencer(base, baseLibrary);
  loadProcessorLibrary(registry, directory, quietly);
  const device = registry.deviceByType(CPU_DEVICE_TYPE);
  if (device === null) throw new Error(`ggml in ${directory}: no library there runs on this processor`);
  return {
    directory,
    version: base.version(),
    base,
    dequantize: bindAll(baseLibrary, DEQUANTIZE_SIGNATURES),
    cpu: bindCpu(base, device, directory),
    device,
    quietly,
    extraBufferTypes: () => extraBufferTypes(base, device),
    gpus: () => gpuDevices(base, registry),
    createBackend: () => expectAddress(registry.backendByType(CPU_DEVICE_TYPE, null), "a CPU backend"),
  };
}

/** `NEREID_GGML_DIR`, else the npm package of this platform. */
export function findGgmlDirectory(environment: Environment = process.env): string {
  const chosen = environment.NEREID_GGML_DIR;
  if (chosen !== undefined && chosen !== "") return expectLibraries(chosen, "NEREID_GGML_DIR");
  const platform = `${process.platform}-${process.arch}`;
  const packageName = `@node-llama-cpp/${platform}`;
  try {
    const entry = createRequire(import.meta.url).resolve(packageName);
    return expectLibraries(join(dirname(dirname(entry)), "bins", platform), packageName);
  } catch (cause) {
    const hint = `install ${packageName} or set NEREID_GGML_DIR to a folder with libggml-base.so`;
    throw new Error(`ggml, which runs language models on the CPU, was not found: ${hint}`, { cause });
  }
}

/** Checks ggml's results for failed allocations. */
export function expectAddress(address: bigint | null, what: string): bigint {
  if (address === null) throw new Error(`ggml could not make ${what}: out of memory`);
  return address;
}

function expectLibraries(directory: string, source: string): string {
  if (existsSync(join(directory, "libggml-base.so"))) return directory;
  throw new Error(`${source}: expected libggml-base.so in ${directory}`);
}

function registryFile(directory: string): string {
  const file = readdirSync(directory).find((name) => /^libggml(\.[a-z]+)?(\.v[0-9.]+)?\.so$/.test(name));
  if (file === undefined)
    throw new Error(`${directory}: expected libggml.so, the registry of backends, beside libggml-base.so`);
  return file;
}

function checkRelease(base: GgmlBase, directory: string): void {
  const version = base.version();
  if (!VERSION_PATTERN.test(version)) {
    throw new Error(`ggml in ${directory}: expected version 0.25, got ${version}; install the pinned package`);
  }
  const overhead = base.tensorOverhead();
  if (overhead !== TENSOR_OVERHEAD_BYTES) {
    throw new Error(`ggml in ${directory}: expected tensors of ${TENSOR_OVERHEAD_BYTES} bytes, got ${overhead}`);
  }
  for (const [name, value] of Object.entries(GGML_TYPES) as [GgmlType, number][]) {
    const { numElements, numBytes } = GGML_BLOCKS[name];
    if (base.typeName(value) !== name || base.typeSize(value) !== numBytes || base.blockSize(value) !== numElements) {
      throw new Error(`ggml in ${directory}: type ${value} is ${base.typeName(value)}, expected ${name}`);
    }
  }
}

/** Functions of a library by a table of their signatures. @throws Error naming the first that is missing */
export function bindAll<Functions>(library: NativeLibrary, table: SignatureTable<Functions>): Functions {
  const bound = Object.entries(table as Record<string, readonly [string, string, string]>).map(
    ([key, [symbol, result, parameters]]) => {
      if (!library.has(symbol))
        throw new Error(`${library.path}: expected a function ${symbol}; install the pinned package`);
      return [key, library.func(symbol, result, splitTypes(parameters))] as const;
    },
  );
  return Object.fromEntries(bound) as Functions;
}

function bindCpu(base: GgmlBase, device: bigint, directory: string): GgmlCpu {
  const registry = expectAddress(base.deviceRegistry(device), "a CPU registry");
  const bound = Object.entries(CPU_SIGNATURES).map(([key, [symbol, result, parameters]]) => {
    const address = base.procAddress(registry, symbol);
    if (address === null) throw new Error(`ggml in ${directory}: the CPU library does not offer ${symbol}`);
    return [key, functionAt(address, result, splitTypes(parameters))] as const;
  });
  return Object.fromEntries(bound) as unknown as GgmlCpu;
}

/** A null-terminated list. */
function extraBufferTypes(base: GgmlBase, device: bigint): readonly bigint[] {
  const registry = expectAddress(base.deviceRegistry(device), "a CPU registry");
  const address = base.procAddress(registry, "ggml_backend_dev_get_extra_bufts");
  if (address === null) return [];
  const list = functionAt(address, "void*", ["void*"])(device) as bigint | null;
  const found: bigint[] = [];
  const entry = new BigUint64Array(1);
  while (list !== null && found.length < MAX_EXTRA_BUFFER_TYPES) {
    copyFromMemory(new Uint8Array(entry.buffer), list + BigInt(8 * found.length));
    const [kind = 0n] = entry;
    if (kind === 0n) break;
    found.push(kind);
  }
  return found;
}

function gpuDevices(base: GgmlBase, registry: GgmlRegistry): readonly GgmlGpu[] {
  const devices = Array.from({ length: Number(registry.deviceCount()) }, (_, i) => registry.deviceAt(i));
  return GPU_DEVICE_TYPES.flatMap((type) =>
    devices.flatMap((device) => {
      if (device === null || base.deviceType(device) !== type) return [];
      const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)];
      base.deviceMemory(device, free, total);
      return [{ name: base.deviceDescription(device), freeBytes: Number(free[0] ?? 0n) }];
    }),
  );
}

function splitTypes(parameters: string): string[] {
  return parameters === "" ? [] : parameters.split(" ");
}

/** The registry tries the library of each processor generation and keeps the fastest supported one. */
function loadProcessorLibrary(registry: GgmlRegistry, directory: string, quietly: Ggml["quietly"]): void {
  if (registry.deviceByType(CPU_DEVICE_TYPE) === null) quietly(() => registry.loadAll(directory));
}

/** ggml logs to stderr; an empty callback replaces that meanwhile. */
function silencer(base: GgmlBase, library: NativeLibrary): Ggml["quietly"] {
  return (work) => {
    base.logSet(library.symbol("ggml_time_init"), null);
    try {
      return work();
    } finally {
      base.logSet(null, null);
    }
  };
}

/** ggml_threadpool_params: bool[512] of processors, then int32 threads, int32 priority, uint32 polling, two flags. */
export function threadpoolParams(base: GgmlBase, numThreads: number, polling: number): Uint8Array {
  const params = new Uint8Array(528);
  base.threadpoolDefaults(params, numThreads);
  const fields = new DataView(params.buffer);
  if (fields.getInt32(512, true) !== numThreads)
    throw new Error("ggml: ggml_threadpool_params has another layout than expected");
  fields.setUint32(520, polling, true);
  return params;
}
