/**
 * Regions of shared memory and settings of a server (Triton's shared memory, trace and logging extensions). Sources:
 * docs/protocol of Triton: extension_shared_memory.md, extension_trace.md, extension_logging.md.
 */

export type MemoryKind = "system" | "cuda";

/** A registered region; `key` and `offset` are those of system memory, `deviceId` that of a GPU. */
export interface MemoryRegion {
  readonly name: string;
  readonly byteSize: number;
  readonly key?: string;
  readonly offset?: number;
  readonly deviceId?: number;
}

export interface SystemRegion {
  readonly name: string;
  /** Name of the POSIX shared memory object, e.g. "/my_inputs". */
  readonly key: string;
  readonly byteSize: number;
  /** Offset of the region in the object. Default: 0. */
  readonly offset?: number | undefined;
}

export interface CudaRegion {
  readonly name: string;
  /** The 64 bytes of a cudaIpcMemHandle_t. */
  readonly rawHandle: Uint8Array;
  readonly deviceId: number;
  readonly byteSize: number;
}

/** Settings as the server names them; `trace_level` is a list. */
export type TraceSettings = Readonly<Record<string, string | readonly string[]>>;
/** `null` returns a setting of a model to the server's. */
export type TraceChanges = Readonly<Record<string, string | number | readonly string[] | null>>;
export type LogSettings = Readonly<Record<string, string | number | boolean>>;
