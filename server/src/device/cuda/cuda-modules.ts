/** Compiles and loads kernels when they are first asked for. One per device; it launches nothing. */
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import { FUNCTION_ATTRIBUTES } from "../../native/cuda/functions.ts";
import { expectCudaLibrary } from "../../native/cuda/libraries.ts";
import { type Nvrtc, openNvrtc } from "../../native/cuda/nvrtc.ts";
import type { Address } from "../../native/ffi.ts";
import { CubinCache, cubinKey } from "./cubin-cache.ts";
import { compileOptions, readKernelSource } from "./kernel-source.ts";
import type { KernelHandle, KernelSpec } from "./kernel-stream.ts";

export interface CudaKernel extends KernelHandle {
  readonly address: Address;
  /** Dynamic shared memory allowed so far. */
  sharedBytes: number;
}

export interface CompiledModule {
  readonly source: string;
  readonly compileMs: number;
  readonly isCached: boolean;
}

/** A kernel may use this much dynamic shared memory without asking. */
const DEFAULT_SHARED_BYTES = 48 * 1024;

export class CudaModules {
  /** Modules compiled or found in the cache, in order. */
  readonly compiled: CompiledModule[] = [];
  readonly #driver: CudaDriver;
  readonly #arch: string;
  readonly #cache: CubinCache;
  readonly #modules = new Map<string, Address>();
  readonly #kernels = new Map<string, CudaKernel>();
  /** The same by what is quickest to write: every launch asks. */
  readonly #asked = new Map<string, CudaKernel>();
  #nvrtc: Nvrtc | undefined;

  constructor(driver: CudaDriver, arch: string, cache: CubinCache = new CubinCache()) {
    this.#driver = driver;
    this.#arch = arch;
    this.#cache = cache;
  }

  get(spec: KernelSpec): CudaKernel {
    const key = askedKey(spec);
    const known = this.#asked.get(key);
    if (known !== undefined) return known;
    const kernel = this.#find(spec);
    this.#asked.set(key, kernel);
    return kernel;
  }

  #find(spec: KernelSpec): CudaKernel {
    const options = compileOptions(this.#arch, spec.defines);
    const key = `${spec.source} ${options.join(" ")}`;
    const name = `${key} ${spec.name} ${spec.usesProgrammaticLaunch === true}`;
    const known = this.#kernels.get(name);
    if (known !== undefined) return known;
    const { calls, check } = this.#driver;
    const out = new BigUint64Array(1);
    check(calls.moduleFunction(out, this.#module(key, spec, options), spec.name), `finding ${spec.name} in ${key}`);
    const kernel = { spec, address: out[0] ?? 0n, sharedBytes: DEFAULT_SHARED_BYTES };
    this.#kernels.set(name, kernel);
    return kernel;
  }

  /** Lets a kernel use so much dynamic shared memory. */
  allowShared(kernel: CudaKernel, sharedBytes: number): void {
    if (sharedBytes <= kernel.sharedBytes) return;
    const { calls, check } = this.#driver;
    const status = calls.setFunctionAttribute(kernel.address, FUNCTION_ATTRIBUTES.maxDynamicSharedBytes, sharedBytes);
    check(status, `allowing ${kernel.spec.name} ${sharedBytes} bytes of shared memory`);
    kernel.sharedBytes = sharedBytes;
  }

  close(): void {
    for (const module of this.#modules.values())
      this.#driver.check(this.#driver.calls.unloadModule(module), "unloading");
    this.#modules.clear();
    this.#kernels.clear();
    this.#asked.clear();
  }

  #module(key: string, { source }: KernelSpec, options: readonly string[]): Address {
    const known = this.#modules.get(key);
    if (known !== undefined) return known;
    const out = new BigUint64Array(1);
    const { calls, check } = this.#driver;
    check(calls.loadModule(out, this.#cubin(source, options)), `loading ${key}`);
    const module = out[0] ?? 0n;
    this.#modules.set(key, module);
    return module;
  }

  #cubin(path: string, options: readonly string[]): Uint8Array {
    const source = readKernelSource(path);
    const key = cubinKey(source, options, this.#driver.version);
    const cached = this.#cache.get(key);
    const startMs = performance.now();
    const cubin = cached ?? this.#compile(source, options);
    if (cached === undefined) this.#cache.set(key, cubin);
    this.compiled.push({ source: path, compileMs: performance.now() - startMs, isCached: cached !== undefined });
    return cubin;
  }

  #compile(source: ReturnType<typeof readKernelSource>, options: readonly string[]): Uint8Array {
    this.#nvrtc ??= openNvrtc(expectCudaLibrary("nvrtc"));
    return this.#nvrtc.compile(source, options).cubin;
  }
}

/** Tells specs apart; those that differ in the order of their defines too. */
export function askedKey({ source, name, defines, usesProgrammaticLaunch }: KernelSpec): string {
  let key = `${source} ${name} ${usesProgrammaticLaunch === true ? 1 : 0}`;
  for (const define in defines) key += ` ${define}=${defines[define]}`;
  return key;
}
