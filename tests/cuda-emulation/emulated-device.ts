/** A device of its own kind for the checks of kernels: their text, compiled for the host, on threads that take turns. */
import type { CudaCheckContext } from "../../server/kernels/testing/cuda-check.ts";
import { readKernelSource } from "../../server/src/device/cuda/kernel-source.ts";
import type {
  Dimensions,
  KernelArg,
  KernelHandle,
  KernelSpec,
  KernelStream,
} from "../../server/src/device/cuda/kernel-stream.ts";
import type { CudaSource } from "../../server/src/native/cuda/nvrtc.ts";
import { addressOf, type NativeFunction, openLibrary, type Pointer } from "../../server/src/native/ffi.ts";
import { compileEmulation, type HostCompiler } from "./compile-emulation.ts";
import { GuardedMemory } from "./guarded-memory.ts";

/** Runs it while nobody else does anything so: kernels of a process share what they are emulated with. */
export type Exclusive = <T>(run: () => T) => T;

export interface EmulationOptions {
  readonly compiler: HostCompiler;
  readonly arch: string;
  /** Seed of the order in which threads run. */
  readonly seed: number;
  readonly numSms?: number;
  /** By the path in a kernel's spec. */
  readonly readSource?: (path: string) => CudaSource;
  /** Needed where several threads have devices. */
  readonly exclusive?: Exclusive | undefined;
}

const MAX_ARGS = 64;

interface EmulatedKernel extends KernelHandle {
  /** Kinds of its parameters, a letter each. */
  readonly kinds: string;
  readonly launch: NativeFunction<[Pointer, Pointer], string | null>;
}

export class EmulatedDevice implements CudaCheckContext, KernelStream {
  readonly stream: KernelStream = this;
  readonly numSms: number;
  readonly arch: string;
  readonly #options: EmulationOptions;
  readonly #exclusive: Exclusive;
  readonly #memory: GuardedMemory = new GuardedMemory();
  readonly #kernels = new Map<string, EmulatedKernel>();
  /** Arguments of a launch. Held here: memory whose address alone is passed on could be collected meanwhile. */
  readonly #cells = new DataView(new ArrayBuffer(8 * MAX_ARGS));
  readonly #cellsAddress = addressOf(this.#cells);
  #numLaunches = 0;

  constructor(options: EmulationOptions) {
    this.#options = options;
    this.#exclusive = options.exclusive ?? ((run) => run());
    this.numSms = options.numSms ?? 132;
    this.arch = options.arch;
  }

  /** Loaded so far. */
  get numKernels(): number {
    return this.#kernels.size;
  }

  kernel(spec: KernelSpec): EmulatedKernel {
    const key = JSON.stringify(spec);
    const kernel = this.#kernels.get(key) ?? this.#exclusive(() => this.#load(spec));
    this.#kernels.set(key, kernel);
    return kernel;
  }

  /** Runs at once. @throws Error saying where the kernel went wrong */
  launch(
    { spec }: KernelHandle,
    grid: Dimensions,
    block: Dimensions,
    sharedBytes: number,
    args: readonly KernelArg[],
  ): void {
    const { kinds, launch } = this.kernel(spec);
    const given = args.map(kindOf).join("");
    if (given !== kinds) throw new Error(`${spec.name}: has parameters ${kinds}, was launched with ${given}`);
    this.#numLaunches += 1;
    if (args.length > MAX_ARGS) throw new Error(`${spec.name}: more than ${MAX_ARGS} arguments`);
    writeCells(args, this.#cells);
    const pointers = BigUint64Array.from(args, (_, i) => this.#cellsAddress + BigInt(8 * i));
    const seed = this.#options.seed * 1000 + this.#numLaunches;
    const fault = this.#exclusive(() => launch(Uint32Array.of(...grid, ...block, sharedBytes, seed), pointers));
    if (fault !== null) throw new Error(`${spec.name}: ${fault}`);
  }

  upload(bytes: ArrayBufferView): bigint {
    const address = this.#memory.allocate(bytes.byteLength, 0);
    this.#memory.write(address, bytes);
    return address;
  }

  allocate(numBytes: number): bigint {
    return this.#memory.allocate(numBytes, 0xff);
  }

  zeros(numBytes: number): bigint {
    return this.#memory.allocate(numBytes, 0);
  }

  async download(from: bigint, into: ArrayBufferView): Promise<void> {
    this.#memory.read(into, from);
  }

  /** Frees what a check has taken. @throws Error when a kernel wrote outside of it */
  clear(): void {
    this.#memory.clear();
  }

  #load(spec: KernelSpec): EmulatedKernel {
    const { compiler, arch, readSource = (path: string) => readKernelSource(path) } = this.#options;
    const { name, defines } = spec;
    const library = openLibrary(compileEmulation(compiler, { source: readSource(spec.source), name, defines, arch }));
    const kinds = library.func<[], string>("emulated_kinds", "str", []);
    return { spec, kinds: kinds(), launch: library.func("emulated_launch", "str", ["void*", "void*"]) };
  }
}

function kindOf(arg: KernelArg): string {
  if ("ptr" in arg) return "p";
  if ("i32" in arg) return "i";
  if ("table" in arg) return "t";
  return "f32" in arg ? "f" : "l";
}

/** Eight bytes each. */
function writeCells(args: readonly KernelArg[], cells: DataView): void {
  args.forEach((arg, i) => {
    if ("ptr" in arg) cells.setBigUint64(8 * i, arg.ptr, true);
    else if ("i32" in arg) cells.setInt32(8 * i, arg.i32, true);
    else if ("f32" in arg) cells.setFloat32(8 * i, arg.f32, true);
    else if ("i64" in arg) cells.setBigInt64(8 * i, arg.i64, true);
  });
}
