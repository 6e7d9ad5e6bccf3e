/**
 * RPCs for regions of shared memory (Triton's system shared memory extension, Triton's CUDA shared memory extension).
 */
import type { SharedMemoryRegions } from "../../shared-memory.ts";
import type { MessageTypes } from "../messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

interface RegionRequest {
  /** "" = all. */
  readonly name: string;
}

/** 64-bit numbers are decimal text. */
interface RegisterRequest extends RegionRequest {
  readonly key: string;
  readonly offset: string;
  readonly byte_size: string;
}

interface RegisterCudaRequest extends RegionRequest {
  readonly raw_handle: Uint8Array;
  readonly device_id: string;
  readonly byte_size: string;
}

export function sharedMemoryEntries(regions: SharedMemoryRegions, types: MessageTypes): readonly MethodEntry[] {
  const group = "shared-memory";
  return [
    unaryEntry<RegionRequest>(types, "SystemSharedMemoryStatus", group, ({ name }) => ({
      regions: Object.fromEntries(regions.systemStatus(name).map((status) => [status.name, status])),
    })),
    unaryEntry<RegisterRequest>(types, "SystemSharedMemoryRegister", group, ({ name, key, offset, byte_size }) => {
      regions.register(name, key, BigInt(offset), BigInt(byte_size));
      return {};
    }),
    unaryEntry<RegionRequest>(types, "SystemSharedMemoryUnregister", group, ({ name }) => {
      regions.unregister(name);
      return {};
    }),
    unaryEntry<RegionRequest>(types, "CudaSharedMemoryStatus", group, ({ name }) => ({
      regions: Object.fromEntries(regions.cudaStatus(name).map((status) => [status.name, status])),
    })),
    unaryEntry<RegisterCudaRequest>(types, "CudaSharedMemoryRegister", group, (request) => {
      regions.registerCuda(request.name, request.raw_handle, BigInt(request.device_id), BigInt(request.byte_size));
      return {};
    }),
    unaryEntry<RegionRequest>(types, "CudaSharedMemoryUnregister", group, ({ name }) => {
      regions.unregister(name, "cuda");
      return {};
    }),
  ];
}
