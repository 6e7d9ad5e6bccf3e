/** An order of work on a device: launches, copies, events. Knows no kernel and no tensor. */
import { type CudaDriver, pinnedBytes } from "../../native/cuda/cuda.ts";
import { EVENT_DISABLE_TIMING, STREAM_NON_BLOCKING } from "../../native/cuda/functions.ts";
import type { Address, Pointer } from "../../native/ffi.ts";
import type { CudaKernel, CudaModules } from "./cuda-modules.ts";
import type { DevicePointer, Dimensions, KernelArg, KernelSpec, KernelStream } from "./kernel-stream.ts";
import { TensorMaps } from "./tensor-maps.ts";

/** CUlaunchConfig and, behind it, room for one CUlaunchAttribute. */
const CONFIG = { numBytes: 56, sharedAt: 24, streamAt: 32, attributesAt: 40, countAt: 48 } as const;
const ATTRIBUTE = { at: 64, valueAt: 72, numBytes: 72, programmaticSerialization: 6 } as const;
const MAX_ARGS = 64;
/** CUDA_MEMCPY2D */
const ROWS_COPY = {
  numBytes: 128,
  fromTypeAt: 16,
  fromAt: 32,
  fromPitchAt: 48,
  toTypeAt: 72,
  toAt: 88,
  toPitchAt: 104,
  rowBytesAt: 112,
  numRowsAt: 120,
  onDevice: 2,
} as const;

export interface RowsCopy {
  readonly to: DevicePointer;
  /** Bytes from a row to the next. */
  readonly toPitch: number;
  readonly from: DevicePointer;
  readonly fromPitch: number;
  readonly rowBytes: number;
  readonly numRows: number;
}

/** State that streams of one device share. */
export interface StreamOwner {
  readonly driver: CudaDriver;
  readonly modules: CudaModules;
  readonly numSms: number;
  readonly arch: string;
  /** Kernels that wait by themselves may start early. */
  readonly overlapsLaunches: boolean;
  /** The host waits for each piece of work, so that an error names it. */
  readonly checksLaunches: boolean;
}

export class CudaStream implements KernelStream {
  readonly address: Address;
  readonly numSms: number;
  readonly arch: string;
  readonly #owner: StreamOwner;
  readonly #config = pinnedBytes(CONFIG.numBytes + 8 + ATTRIBUTE.numBytes);
  readonly #configBytes: Uint8Array;
  readonly #values = pinnedBytes(8 * MAX_ARGS);
  readonly #tensorMaps: TensorMaps;
  /** Addresses of the values: the parameters of cuLaunchKernel. */
  readonly #parameters = new BigUint64Array(new ArrayBuffer(8 * MAX_ARGS));

  constructor(owner: StreamOwner) {
    this.#owner = owner;
    this.numSms = owner.numSms;
    this.arch = owner.arch;
    const out = new BigUint64Array(1);
    owner.driver.check(owner.driver.calls.createStream(out, STREAM_NON_BLOCKING), "making a stream");
    this.address = out[0] ?? 0n;
    this.#tensorMaps = new TensorMaps(owner.driver, this.address);
    for (let i = 0; i < MAX_ARGS; i++) this.#parameters[i] = this.#values.address + BigInt(8 * i);
    const { view, address } = this.#config;
    view.setBigUint64(CONFIG.streamAt, this.address, true);
    view.setBigUint64(CONFIG.attributesAt, address + BigInt(ATTRIBUTE.at), true);
    view.setInt32(ATTRIBUTE.at, ATTRIBUTE.programmaticSerialization, true);
    view.setInt32(ATTRIBUTE.valueAt, 1, true);
    this.#configBytes = new Uint8Array(view.buffer);
  }

  kernel(spec: KernelSpec): CudaKernel {
    return this.#owner.modules.get(spec);
  }

  launch(
    kernel: CudaKernel,
    grid: Dimensions,
    block: Dimensions,
    sharedBytes: number,
    args: readonly KernelArg[],
  ): void {
    const { driver, modules, overlapsLaunches, checksLaunches } = this.#owner;
    if (args.length > MAX_ARGS) throw new Error(`${kernel.spec.name}: more than ${MAX_ARGS} arguments`);
    modules.allowShared(kernel, sharedBytes);
    const { view } = this.#config;
    for (let i = 0; i < 3; i++) {
      view.setUint32(4 * i, grid[i] ?? 1, true);
      view.setUint32(12 + 4 * i, block[i] ?? 1, true);
    }
    view.setUint32(CONFIG.sharedAt, sharedBytes, true);
    view.setUint32(CONFIG.countAt, overlapsLaunches && kernel.spec.usesProgrammaticLaunch === true ? 1 : 0, true);
    for (let i = 0; i < args.length; i++) this.#setArg(8 * i, args[i]);
    const status = driver.calls.launch(this.#configBytes, kernel.address, this.#parameters, null);
    if (status !== 0) driver.check(status, `launching ${kernel.spec.name} with a grid of ${grid}, blocks of ${block}`);
    if (checksLaunches)
      this.expectDone(`running ${kernel.spec.name} with a grid of ${grid}${describeDefines(kernel.spec)}`);
  }

  /** Waits for all that was enqueued. `doing`: the last of it, for the error. */
  expectDone(doing: string): void {
    const { calls, check } = this.#owner.driver;
    check(calls.synchronizeStream(this.address), doing);
  }

  /** `from` must stay as it is until the stream has passed this point, and should be pinned. */
  copyToDevice(to: DevicePointer, from: Pointer, numBytes: number): void {
    const { calls, check } = this.#owner.driver;
    const status = calls.copyToDevice(to, from, BigInt(numBytes), this.address);
    if (status !== 0) check(status, `copying ${numBytes} bytes to the device`);
  }

  /** `to` is filled once the stream has passed this point. */
  copyToHost(to: Pointer, from: DevicePointer, numBytes: number): void {
    const { calls, check } = this.#owner.driver;
    const status = calls.copyToHost(to, from, BigInt(numBytes), this.address);
    if (status !== 0) check(status, `copying ${numBytes} bytes from the device`);
  }

  copyOnDevice(to: DevicePointer, from: DevicePointer, numBytes: number): void {
    const { calls, check } = this.#owner.driver;
    const status = calls.copyOnDevice(to, from, BigInt(numBytes), this.address);
    if (status !== 0) check(status, `copying ${numBytes} bytes on the device`);
  }

  /** Copies rows that lie further apart than they are long, on the device. */
  copyRows({ to, toPitch, from, fromPitch, rowBytes, numRows }: RowsCopy): void {
    const view = new DataView(new ArrayBuffer(ROWS_COPY.numBytes));
    view.setInt32(ROWS_COPY.fromTypeAt, ROWS_COPY.onDevice, true);
    view.setBigUint64(ROWS_COPY.fromAt, from, true);
    view.setBigUint64(ROWS_COPY.fromPitchAt, BigInt(fromPitch), true);
    view.setInt32(ROWS_COPY.toTypeAt, ROWS_COPY.onDevice, true);
    view.setBigUint64(ROWS_COPY.toAt, to, true);
    view.setBigUint64(ROWS_COPY.toPitchAt, BigInt(toPitch), true);
    view.setBigUint64(ROWS_COPY.rowBytesAt, BigInt(rowBytes), true);
    view.setBigUint64(ROWS_COPY.numRowsAt, BigInt(numRows), true);
    const { calls, check } = this.#owner.driver;
    const status = calls.copyRows(new Uint8Array(view.buffer), this.address);
    if (status !== 0) check(status, `copying ${numRows} rows of ${rowBytes} bytes on the device`);
  }

  fill(to: DevicePointer, byte: number, numBytes: number): void {
    const { calls, check } = this.#owner.driver;
    check(calls.fillBytes(to, byte, BigInt(numBytes), this.address), `filling ${numBytes} bytes`);
  }

  /** Blocks this thread. */
  synchronize(): void {
    this.expectDone("waiting for the device");
  }

  close(): void {
    const { calls, check } = this.#owner.driver;
    this.#tensorMaps.close();
    check(calls.destroyStream(this.address), "closing a stream");
  }

  #setArg(at: number, arg: KernelArg | undefined): void {
    const { view } = this.#values;
    if (arg === undefined) return;
    if ("ptr" in arg) view.setBigUint64(at, arg.ptr, true);
    else if ("table" in arg) view.setBigUint64(at, this.#tensorMaps.place(arg.table), true);
    else if ("i32" in arg) view.setInt32(at, arg.i32, true);
    else if ("f32" in arg) view.setFloat32(at, arg.f32, true);
    else view.setBigInt64(at, arg.i64, true);
  }
}

function describeDefines({ defines }: KernelSpec): string {
  return Object.entries(defines)
    .map(([name, value]) => `, ${name}=${value}`)
    .join("");
}

/** An event in a stream: whether the device has passed it, and when. */
export class CudaEvent {
  readonly #driver: CudaDriver;
  readonly #address: Address;
  readonly #expectSound: () => void;

  /** `expectSound` throws when the event can never be reached. */
  constructor(driver: CudaDriver, hasTime = false, expectSound: () => void = () => undefined) {
    const out = new BigUint64Array(1);
    driver.check(driver.calls.createEvent(out, hasTime ? 0 : EVENT_DISABLE_TIMING), "making an event");
    this.#driver = driver;
    this.#address = out[0] ?? 0n;
    this.#expectSound = expectSound;
  }

  record(stream: CudaStream): void {
    this.#driver.check(this.#driver.calls.recordEvent(this.#address, stream.address), "recording an event");
  }

  /** Later work on `stream` waits for the event, if it was recorded. */
  holdBack(stream: CudaStream): void {
    this.#driver.check(this.#driver.calls.streamWaitEvent(stream.address, this.#address, 0), "waiting for an event");
  }

  /** Resolves once the device has passed the event. Polls each turn of the event loop, which goes on meanwhile. */
  async passed(doing: string): Promise<void> {
    const NOT_READY = 600;
    for (;;) {
      const status = this.#driver.calls.queryEvent(this.#address);
      if (status === 0) return;
      if (status !== NOT_READY) this.#driver.check(status, doing);
      this.#expectSound();
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  /** Both must have been made with times and passed. */
  msSince(start: CudaEvent): number {
    const ms = new Float32Array(1);
    this.#driver.check(this.#driver.calls.elapsedMs(ms, start.#address, this.#address), "reading the time of an event");
    return ms[0] ?? 0;
  }

  close(): void {
    this.#driver.check(this.#driver.calls.destroyEvent(this.#address), "closing an event");
  }
}
