/**
 * A GPU as runners of models see one, whose kernels run on emulated threads and whose GEMMs are loops: for showing that
 * everything around the kernels is right where there is no GPU. It does all at once and in order, so it tells nothing of
 * streams; a recorded graph is the list of its calls.
 */
import {
  type CudaElement,
  ELEMENT_BYTES,
  fromElements,
  toElements,
} from "../../server/kernels/testing/cuda-elements.ts";
import type { CudaDevice } from "../../server/src/device/cuda/cuda-device.ts";
import type { KernelArg, KernelHandle, KernelSpec } from "../../server/src/device/cuda/kernel-stream.ts";
import type { MatmulPointers, MatmulShape } from "../../server/src/native/cuda/cublaslt.ts";
import {
  type Address,
  addressOf,
  type NativeFunction,
  openLibrary,
  type Pointer,
  viewMemory,
} from "../../server/src/native/ffi.ts";
import type { HostCompiler } from "./compile-emulation.ts";
import { EmulatedDevice, type Exclusive } from "./emulated-device.ts";
import { EmulatedGraphs } from "./emulated-graphs.ts";

/** Times of events: long enough for measurements to end at once. */
const EVENT_MS = 1;
const FREE_BYTES = 2 ** 40;
/** Label of the memory whose only use is to push everything else out of a cache. */
const CACHE_FLUSH = "measuring";
/** There is no cache: nothing is there, and nothing is written. */
const NOWHERE: Address = 0n;

export class EmulatedGpu {
  readonly ordinal = 0;
  readonly name = "an emulated GPU";
  readonly arch: string;
  readonly numSms: number;
  readonly stream: EmulatedStream;
  /** Numbers of launches, by name. */
  readonly launched = new Map<string, number>();
  readonly graphs = new EmulatedGraphs();
  readonly driver = this.graphs.driver;
  readonly lt = {
    version: "none",
    plan: (shape: MatmulShape): EmulatedProduct => new EmulatedProduct(shape, this.graphs, this.numAlgorithms),
  };
  /** That the library suggests for each product. */
  numAlgorithms = 1;
  readonly #device: EmulatedDevice;

  /** `exclusive`: where several threads of the process have emulated GPUs. */
  constructor(compiler: HostCompiler, arch = "sm_90", exclusive?: Exclusive) {
    this.#device = new EmulatedDevice({ compiler, arch, seed: 1, exclusive });
    this.arch = arch;
    this.numSms = this.#device.numSms;
    this.stream = new EmulatedStream(this.#device, this.launched, this.graphs);
  }

  /** Kernels that were loaded so far. */
  get numKernels(): number {
    return this.#device.numKernels;
  }

  /** As what takes a GPU knows it. */
  asDevice(): CudaDevice {
    return this as unknown as CudaDevice;
  }

  allocate(label: string, numBytes: number): object {
    const address = label === CACHE_FLUSH ? NOWHERE : this.#device.allocate(numBytes);
    return { label, numBytes, address, close: () => undefined };
  }

  pin(numBytes: number): object {
    const bytes = new Uint8Array(new ArrayBuffer(numBytes));
    return { bytes, address: addressOf(bytes), close: () => undefined };
  }

  event(): object {
    const ignore = (): void => undefined;
    return { record: ignore, holdBack: ignore, close: ignore, passed: async () => undefined, msSince: () => EVENT_MS };
  }

  newStream(): EmulatedStream {
    return this.stream;
  }

  memory(): { readonly freeBytes: number; readonly totalBytes: number } {
    return { freeBytes: FREE_BYTES, totalBytes: FREE_BYTES };
  }

  /** @throws Error when a kernel wrote outside of what was allocated */
  close(): void {
    this.#device.clear();
  }
}

class EmulatedStream {
  readonly address = 0n;
  readonly arch: string;
  readonly numSms: number;
  readonly #device: EmulatedDevice;
  readonly #launched: Map<string, number>;
  readonly #memcpy: NativeFunction<[Pointer, Pointer, number], void>;
  readonly #memset: NativeFunction<[Pointer, number, number], void>;

  readonly #graphs: EmulatedGraphs;

  constructor(device: EmulatedDevice, launched: Map<string, number>, graphs: EmulatedGraphs) {
    this.#graphs = graphs;
    const libc = openLibrary(null);
    this.#memcpy = libc.func("memcpy", "void", ["void*", "void*", "size_t"]);
    this.#memset = libc.func("memset", "void", ["void*", "int", "size_t"]);
    this.#device = device;
    this.#launched = launched;
    this.arch = device.arch;
    this.numSms = device.numSms;
  }

  kernel(spec: KernelSpec): KernelHandle {
    return this.#device.kernel(spec);
  }

  launch(
    kernel: KernelHandle,
    grid: readonly [number, number, number],
    block: readonly [number, number, number],
    sharedBytes: number,
    args: readonly KernelArg[],
  ): void {
    const { name } = kernel.spec;
    this.#graphs.call(() => {
      this.#launched.set(name, (this.#launched.get(name) ?? 0) + 1);
      this.#device.launch(kernel, grid, block, sharedBytes, args);
    });
  }

  copyToDevice(to: Address, from: Pointer, numBytes: number): void {
    this.#graphs.call(() => this.#memcpy(to, from, numBytes));
  }

  copyToHost(to: Pointer, from: Address, numBytes: number): void {
    this.#graphs.call(() => this.#memcpy(to, from, numBytes));
  }

  copyOnDevice(to: Address, from: Address, numBytes: number): void {
    this.#graphs.call(() => this.#memcpy(to, from, numBytes));
  }

  fill(to: Address, byte: number, numBytes: number): void {
    if (to !== NOWHERE) this.#graphs.call(() => this.#memset(to, byte, numBytes));
  }

  synchronize(): void {
    // Whatever was asked for is done.
  }

  close(): void {
    // It holds nothing.
  }
}

/** y = x . weight^T + bias, of floats or of codes with scales. */
class EmulatedProduct {
  readonly #shape: MatmulShape;
  readonly #graphs: EmulatedGraphs;
  readonly #numAlgorithms: number;

  constructor(shape: MatmulShape, graphs: EmulatedGraphs, numAlgorithms: number) {
    this.#shape = shape;
    this.#graphs = graphs;
    this.#numAlgorithms = numAlgorithms;
  }

  algorithms(): readonly object[] {
    return Array.from({ length: this.#numAlgorithms }, (_, i) => ({ data: Uint8Array.of(i + 1), workspaceBytes: 0 }));
  }

  run(pointers: MatmulPointers): void {
    this.#graphs.call(() => this.#multiply(pointers));
  }

  #multiply({ x, weight, y, bias, xScale, weightScale }: MatmulPointers): void {
    const { rows, outputs, inputs, inputType, outputType, scales } = this.#shape;
    const [left, right] = [readFloats(inputType, x, rows * inputs), readFloats(inputType, weight, outputs * inputs)];
    const added = bias === undefined ? undefined : readFloats(outputType, bias, outputs);
    const isScaled = scales === "rows" && xScale !== undefined && weightScale !== undefined;
    const rowScales = isScaled ? readFloats("f32", xScale, rows) : undefined;
    const columnScales = isScaled ? readFloats("f32", weightScale, outputs) : undefined;
    const sums = new Float32Array(rows * outputs);
    for (let row = 0; row < rows; row++) {
      for (let output = 0; output < outputs; output++) {
        let sum = 0;
        for (let i = 0; i < inputs; i++) sum += (left[row * inputs + i] ?? 0) * (right[output * inputs + i] ?? 0);
        sum *= (rowScales?.[row] ?? 1) * (columnScales?.[output] ?? 1);
        sums[row * outputs + output] = sum + (added?.[output] ?? 0);
      }
    }
    const stored = toElements(expectFloat(outputType), sums);
    const bytes = new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength);
    viewMemory(y, bytes.length).set(bytes);
  }

  close(): void {
    // It holds nothing.
  }
}

/** The values at an address, as f32. */
export function readFloats(type: string, at: Address, count: number): Float32Array {
  const element = expectFloat(type);
  const copy = viewMemory(at, count * ELEMENT_BYTES[element]).slice();
  if (element === "f32") return new Float32Array(copy.buffer);
  return fromElements(element, element === "bf16" ? new Uint16Array(copy.buffer) : copy);
}

function expectFloat(type: string): CudaElement {
  if (type === "f32" || type === "bf16" || type === "e4m3") return type;
  throw new Error(`an emulated GPU multiplies floats, got ${type}`);
}
