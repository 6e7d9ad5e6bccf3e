/**
 * NVRTC, the runtime compiler of CUDA C++: source text in, machine code out. Source: NVIDIA NVRTC documentation. Knows
 * no device and no kernel.
 */
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Address, addressOf, cString, type NativeFunction, openLibrary } from "../ffi.ts";

export interface CudaSource {
  /** For messages of the compiler. */
  readonly name: string;
  readonly text: string;
  /** Headers by the name in `#include`. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface Nvrtc {
  readonly path: string;
  /** e.g. "13.0" */
  readonly version: string;
  /** Machine code and the compiler log. @throws Error with the compiler's log */
  compile(source: CudaSource, options: readonly string[]): { readonly cubin: Uint8Array; readonly log: string };
}

type Call<Args extends unknown[]> = NativeFunction<Args, number>;

interface NvrtcCalls {
  readonly version: Call<[Int32Array, Int32Array]>;
  readonly create: Call<[BigUint64Array, Uint8Array, Uint8Array, number, BigUint64Array | null, BigUint64Array | null]>;
  readonly compile: Call<[Address, number, BigUint64Array]>;
  readonly logSize: Call<[Address, BigUint64Array]>;
  readonly log: Call<[Address, Uint8Array]>;
  readonly cubinSize: Call<[Address, BigUint64Array]>;
  readonly cubin: Call<[Address, Uint8Array]>;
  readonly destroy: Call<[BigUint64Array]>;
  readonly errorString: NativeFunction<[number], string>;
}

/** @throws Error with the reason of the dynamic linker */
export function openNvrtc(path: string): Nvrtc {
  const calls = loadCalls(path);
  const major = new Int32Array(1);
  const minor = new Int32Array(1);
  calls.version(major, minor);
  return {
    path,
    version: `${major[0]}.${minor[0]}`,
    compile: (source, options) => compile(calls, source, options),
  };
}

function compile(
  calls: NvrtcCalls,
  source: CudaSource,
  options: readonly string[],
): { readonly cubin: Uint8Array; readonly log: string } {
  const program = createProgram(calls, source);
  try {
    const texts = options.map(cString);
    const status = calls.compile(program, options.length, addressesOf(texts));
    const log = readLog(calls, program);
    if (status !== 0) throw new Error(`${source.name}: ${calls.errorString(status)} (${options.join(" ")})\n${log}`);
    return { cubin: readCubin(calls, program, source.name), log };
  } finally {
    calls.destroy(BigUint64Array.of(program));
  }
}

function createProgram(calls: NvrtcCalls, { name, text, headers }: CudaSource): Address {
  const program = new BigUint64Array(1);
  const texts = [...headers.values()].map(cString);
  const names = [...headers.keys()].map(cString);
  const status = calls.create(
    program,
    cString(text),
    cString(name),
    headers.size,
    headers.size === 0 ? null : addressesOf(texts),
    headers.size === 0 ? null : addressesOf(names),
  );
  if (status !== 0) throw new Error(`${name}: nvrtcCreateProgram: ${calls.errorString(status)}`);
  return program[0] ?? 0n;
}

function readLog(calls: NvrtcCalls, program: Address): string {
  const size = new BigUint64Array(1);
  if (calls.logSize(program, size) !== 0) return "";
  const bytes = Buffer.alloc(Number(size[0] ?? 0n));
  if (bytes.length === 0 || calls.log(program, bytes) !== 0) return "";
  return bytes.toString("utf8").replace(/\0.*$/s, "").trim();
}

function readCubin(calls: NvrtcCalls, program: Address, name: string): Uint8Array {
  const size = new BigUint64Array(1);
  const status = calls.cubinSize(program, size);
  const cubin = new Uint8Array(Number(size[0] ?? 0n));
  if (status !== 0 || cubin.length === 0 || calls.cubin(program, cubin) !== 0) {
    throw new Error(`${name}: the compiler gave no machine code; expected an option --gpu-architecture=sm_...`);
  }
  return cubin;
}

/** The texts must be kept until the call is over. */
function addressesOf(texts: readonly Uint8Array[]): BigUint64Array {
  return BigUint64Array.from(texts, addressOf);
}

/** The compiler opens its second library by name only, so that library must be loaded first. */
function loadBuiltins(path: string): void {
  const folder = dirname(path);
  for (const name of readdirSync(folder)) {
    if (/^libnvrtc-builtins\.so\.\d+\.\d+$/.test(name)) openLibrary(join(folder, name));
  }
}

function loadCalls(path: string): NvrtcCalls {
  if (path.includes("/")) loadBuiltins(path);
  const library = openLibrary(path);
  return {
    version: library.func("nvrtcVersion", "int", ["void*", "void*"]),
    create: library.func("nvrtcCreateProgram", "int", ["void*", "void*", "void*", "int", "void*", "void*"]),
    compile: library.func("nvrtcCompileProgram", "int", ["void*", "int", "void*"]),
    logSize: library.func("nvrtcGetProgramLogSize", "int", ["void*", "void*"]),
    log: library.func("nvrtcGetProgramLog", "int", ["void*", "void*"]),
    cubinSize: library.func("nvrtcGetCUBINSize", "int", ["void*", "void*"]),
    cubin: library.func("nvrtcGetCUBIN", "int", ["void*", "void*"]),
    destroy: library.func("nvrtcDestroyProgram", "int", ["void*"]),
    errorString: library.func("nvrtcGetErrorString", "str", ["int"]),
  };
}
