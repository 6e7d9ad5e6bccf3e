/** Writes down what launchers ask for, in place of a GPU. For tests of launchers and of the order of ops. */
import type { Dimensions, KernelArg, KernelHandle, KernelSpec, KernelStream } from "./kernel-stream.ts";

export interface RecordedLaunch {
  readonly spec: KernelSpec;
  readonly grid: Dimensions;
  readonly block: Dimensions;
  readonly sharedBytes: number;
  readonly args: readonly KernelArg[];
}

/** Limits of every device that Nereid compiles for. */
const MAX_BLOCK_THREADS = 1024;
const MAX_GRID: Dimensions = [2 ** 31 - 1, 65535, 65535];
/** Shared memory of one block on sm_90. */
const MAX_SHARED_BYTES = 227 * 1024;

export class FakeKernelStream implements KernelStream {
  readonly numSms: number;
  readonly arch: string;
  readonly launches: RecordedLaunch[] = [];
  readonly #handles = new Map<string, KernelHandle>();

  constructor(numSms = 132, arch = "sm_90a") {
    this.numSms = numSms;
    this.arch = arch;
  }

  kernel(spec: KernelSpec): KernelHandle {
    const key = JSON.stringify(spec);
    const handle = this.#handles.get(key) ?? { spec };
    this.#handles.set(key, handle);
    return handle;
  }

  launch(
    kernel: KernelHandle,
    grid: Dimensions,
    block: Dimensions,
    sharedBytes: number,
    args: readonly KernelArg[],
  ): void {
    expectSizes(kernel.spec.name, grid, block, sharedBytes);
    this.launches.push({ spec: kernel.spec, grid, block, sharedBytes, args });
  }
}

/** Refuses launches that a driver would refuse. */
function expectSizes(name: string, grid: Dimensions, block: Dimensions, sharedBytes: number): void {
  const isGrid = grid.every((size, i) => Number.isInteger(size) && size >= 1 && size <= (MAX_GRID[i] ?? 0));
  const isBlock = block.every((size) => Number.isInteger(size) && size >= 1);
  const numThreads = block[0] * block[1] * block[2];
  if (isGrid && isBlock && numThreads <= MAX_BLOCK_THREADS && sharedBytes >= 0 && sharedBytes <= MAX_SHARED_BYTES) {
    return;
  }
  throw new Error(`${name}: no device takes a grid of ${grid}, blocks of ${block} with ${sharedBytes} bytes shared`);
}
