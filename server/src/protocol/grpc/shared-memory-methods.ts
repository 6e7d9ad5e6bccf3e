/** RPCs for shared memory, as a server answers them that does not allow it to clients: there is never a region. */
import { ServerError } from "../../core/server-error.ts";
import type { MessageTypes } from "./messages.ts";
import { type MethodEntry, unaryEntry } from "./unary.ts";

const DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";

interface RegionRequest {
  readonly name: string;
}

export function sharedMemoryEntries(types: MessageTypes): readonly MethodEntry[] {
  const group = "shared-memory";
  return [
    unaryEntry<RegionRequest>(types, "SystemSharedMemoryStatus", group, ({ name }) => noRegions("system", name)),
    unaryEntry(types, "SystemSharedMemoryRegister", group, refuse),
    unaryEntry(types, "SystemSharedMemoryUnregister", group, refuse),
    unaryEntry<RegionRequest>(types, "CudaSharedMemoryStatus", group, ({ name }) => noRegions("CUDA", name)),
    unaryEntry<RegionRequest>(types, "CudaSharedMemoryRegister", group, ({ name }) => {
      const message = `failed to register CUDA shared memory region: '${name}', GPUs not supported`;
      throw new ServerError("invalid_argument", message);
    }),
    unaryEntry(types, "CudaSharedMemoryUnregister", group, refuse),
  ];
}

function refuse(): never {
  throw new ServerError("unsupported", DISABLED);
}

function noRegions(kind: string, name: string): object {
  if (name === "") return {};
  throw new ServerError("not_found", `Unable to find ${kind} shared memory region: '${name}'`);
}
