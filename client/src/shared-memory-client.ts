/**
 * Regions of shared memory that the server may read and write (Triton's system and CUDA shared memory extensions).
 * Makes none: `SystemMemory` does in Node. Source: docs/protocol/extension_shared_memory.md of Triton.
 */
import type { CallOptions } from "./call-options.ts";
import type { InferenceApi } from "./inference-api.ts";
import type { CudaRegion, MemoryKind, MemoryRegion, SystemRegion } from "./server-resources.ts";

export interface MemoryOptions extends CallOptions {
  /** Default: all regions. */
  readonly name?: string | undefined;
}

export class SharedMemoryClient {
  readonly #api: InferenceApi;

  constructor(api: InferenceApi) {
    this.#api = api;
  }

  status(kind: MemoryKind, options: MemoryOptions = {}): Promise<readonly MemoryRegion[]> {
    return this.#api.memoryStatus(kind, options.name, options);
  }

  registerSystem(region: SystemRegion, options: CallOptions = {}): Promise<void> {
    return this.#api.registerSystemMemory(region, options);
  }

  registerCuda(region: CudaRegion, options: CallOptions = {}): Promise<void> {
    return this.#api.registerCudaMemory(region, options);
  }

  unregister(kind: MemoryKind, options: MemoryOptions = {}): Promise<void> {
    return this.#api.unregisterMemory(kind, options.name, options);
  }
}
