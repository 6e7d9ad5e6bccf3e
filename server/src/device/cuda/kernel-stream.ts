/**
 * A kernel launcher's view of a GPU: a function by its source, and a place in the order of a stream to run it. The
 * launchers in kernels/ use nothing else, so that they can be tested without a GPU. Knows no driver.
 */

/** A device address. */
export type DevicePointer = bigint;

/** A matrix of bytes of which TMA copies boxes of 128 bytes by `pieceRows`; rows past the last are zeros (PTX ISA, tensor copies). */
export interface TensorMap {
  readonly address: DevicePointer;
  readonly rowBytes: number;
  readonly numRows: number;
  readonly pieceRows: number;
}

/** One argument of a kernel, in the order of its parameters. */
export type KernelArg =
  | { readonly table: TensorMap }
  | { readonly ptr: DevicePointer }
  | { readonly i32: number }
  | { readonly f32: number }
  | { readonly i64: bigint };

export type Dimensions = readonly [x: number, y: number, z: number];

/** Which function, compiled how. Equal specs give the same handle. */
export interface KernelSpec {
  /** Path under kernels/, e.g. "rms-norm/rms-norm.cu". */
  readonly source: string;
  readonly name: string;
  /** -D options of the compiler, e.g. { ELEM_BF16: 1 }. */
  readonly defines: Readonly<Record<string, string | number>>;
  /**
   * Programmatic dependent launch (CUDA programming guide): the kernel may start while the previous one still runs. Only for
   * kernels that execute griddepcontrol.wait before they access memory that earlier kernels write.
   */
  readonly usesProgrammaticLaunch?: boolean;
}

/** A loaded kernel; good for the stream that gave it. */
export interface KernelHandle {
  readonly spec: KernelSpec;
}

export interface KernelStream {
  /** Streaming multiprocessors of the device. */
  readonly numSms: number;
  /** Architecture that kernels are compiled for, e.g. "sm_90a". */
  readonly arch: string;
  /** Compiles and loads on first use. @throws Error with the compiler's log */
  kernel(spec: KernelSpec): KernelHandle;
  /**
   * Enqueues. `sharedBytes`: dynamic shared memory, also above 48 KiB.
   * @throws Error naming the kernel when the driver refuses it
   */
  launch(
    kernel: KernelHandle,
    grid: Dimensions,
    block: Dimensions,
    sharedBytes: number,
    args: readonly KernelArg[],
  ): void;
}
