/**
 * Registered regions of shared memory, one table for all protocols (Triton's system shared memory extension). Texts are
 * Triton's. Clients that may register regions are trusted like processes of the same machine: they can change or
 * shorten an object while a model reads it.
 */
import { MAX_SHARED_MEMORY_REGION_BYTES, MAX_SHARED_MEMORY_REGIONS } from "../core/limits.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import { MappingError, mapSharedMemory, type SharedMapping } from "../native/posix-memory.ts";
import type { DeviceRegions } from "./device-memory.ts";
import { type CudaRegionStatus, MappedMemory, Region, type RegionKind, type SystemStatus } from "./region.ts";

const PLAIN_NAME = /^[A-Za-z0-9_.-]+$/;
/** Objects of this name carry the messages of Triton's Python processes: a client that writes there runs code. */
const RESERVED_PREFIX = "triton_python_backend_shm_region_";
const TITLES: Readonly<Record<RegionKind, string>> = { system: "system", cuda: "CUDA" };

export class SharedMemoryRegions {
  /** Whether clients may register regions; where not, there are none. */
  readonly isAllowed: boolean;
  readonly #regions = new Map<string, Region>();
  readonly #findDevices: () => DeviceRegions | undefined;

  /** `findDevices`: undefined where there is no GPU; asked when a client names one. */
  constructor(isAllowed: boolean, findDevices: () => DeviceRegions | undefined = () => undefined) {
    this.isAllowed = isAllowed;
    this.#findDevices = findDevices;
  }

  /** @throws ServerError where clients may not register */
  expectAllowed(): void {
    if (this.isAllowed) return;
    throw new ServerError(
      "unsupported",
      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
    );
  }

  /** @throws ServerError */
  register(name: string, key: string, offset: bigint, byteSize: bigint): void {
    this.expectAllowed();
    if (objectName(key) === "") {
      const fault = `cannot register shared memory region '${name}' - invalid shm key '${key}'`;
      throw invalidArgument(fault);
    }
    if (objectName(key).startsWith(RESERVED_PREFIX)) {
      throw invalidArgument(
        `cannot register shared memory region '${name}' with key '${key}' as the key contains the reserved prefix '${RESERVED_PREFIX}'`,
      );
    }
    this.#expectNew(name);
    const end = Number(offset + byteSize);
    if (!Number.isSafeInteger(end)) throw refused(name, "invalid args");
    const numBytes = expectSize(name, byteSize);
    const status = { name, key, offset: Number(offset), byte_size: numBytes };
    const mapping = mapObject(name, key, Number(offset), numBytes);
    this.#regions.set(name, new Region("system", status, new MappedMemory(mapping)));
  }

  /**
   * `handle`: of memory that the client has allocated on a GPU.
   * @throws ServerError
   */
  registerCuda(name: string, handle: Uint8Array, deviceId: bigint, byteSize: bigint): void {
    const devices = this.expectDevices(name);
    this.expectAllowed();
    this.#expectNew(name);
    const numBytes = expectSize(name, byteSize);
    const opened = devices.open(handle, Number(deviceId));
    if (numBytes > opened.numBytes) {
      opened.memory.close();
      throw refused(name, "invalid args");
    }
    this.#regions.set(
      name,
      new Region("cuda", { name, device_id: Number(deviceId), byte_size: numBytes }, opened.memory),
    );
  }

  /** @throws ServerError where no GPU is used */
  expectDevices(name: string): DeviceRegions {
    const devices = this.#findDevices();
    if (devices !== undefined) return devices;
    throw invalidArgument(`failed to register CUDA shared memory region: '${name}', GPUs not supported`);
  }

  #expectNew(name: string): void {
    if (this.#regions.has(name)) {
      throw new ServerError("already_exists", `shared memory region '${name}' already in manager`);
    }
    if (!PLAIN_NAME.test(objectName(name))) {
      throw refused(name, "its name may have letters, digits, '_', '.' and '-' only");
    }
    if (this.#regions.size >= MAX_SHARED_MEMORY_REGIONS) {
      throw refused(name, `${MAX_SHARED_MEMORY_REGIONS} regions are registered already, unregister one first`);
    }
  }

  /**
   * Name "" = all of the kind. One that is not registered, or of the other kind, is no error. A region that requests use stays
   * in the table until the last of them has ended, and new ones may still use it.
   */
  unregister(name: string, kind: RegionKind = "system"): void {
    this.expectAllowed();
    for (const region of name === "" ? [...this.#regions.values()] : [this.#regions.get(name)]) {
      if (region?.kind !== kind) continue;
      region.unregister(() => this.#regions.delete(region.status.name));
    }
  }

  /** Name "" = all, by name. @throws ServerError not_found */
  systemStatus(name: string): readonly SystemStatus[] {
    return this.#status(name, "system") as readonly SystemStatus[];
  }

  /** Likewise. */
  cudaStatus(name: string): readonly CudaRegionStatus[] {
    return this.#status(name, "cuda") as readonly CudaRegionStatus[];
  }

  #status(name: string, kind: RegionKind): readonly Region["status"][] {
    if (name === "") {
      const ofKind = [...this.#regions.values()].filter((region) => region.kind === kind);
      return ofKind.map(({ status }) => status).sort(byName);
    }
    const region = this.#regions.get(name);
    if (region?.kind === kind) return [region.status];
    const message =
      region === undefined
        ? `Unable to find ${kind} shared memory region: '${name}'`
        : `The region named '${name}' is registered as ${TITLES[region.kind]} shared memory, not ${TITLES[kind]} shared memory`;
    throw new ServerError("not_found", message);
  }

  /** @throws ServerError not_found */
  find(name: string): Region {
    const region = this.#regions.get(name);
    if (region !== undefined) return region;
    throw new ServerError("not_found", `Unable to find shared memory region: '${name}'`);
  }
}

function expectSize(name: string, byteSize: bigint): number {
  if (byteSize > BigInt(MAX_SHARED_MEMORY_REGION_BYTES)) {
    throw refused(name, `${byteSize} bytes are more than the ${MAX_SHARED_MEMORY_REGION_BYTES} of one region`);
  }
  return Number(byteSize);
}

/** The C library ignores slashes in front. */
function objectName(key: string): string {
  return key.replace(/^\/+/, "");
}

function mapObject(name: string, key: string, offset: number, byteSize: number): SharedMapping {
  const object = objectName(key);
  const cannotOpen = new ServerError("internal", `Unable to open shared memory region: '${key}'`);
  if (!PLAIN_NAME.test(object)) throw cannotOpen;
  try {
    return mapSharedMemory(`/${object}`, offset, byteSize);
  } catch (error) {
    if (!(error instanceof MappingError)) throw error;
    if (error.fault === "object") throw cannotOpen;
    throw refused(name, error.fault === "bounds" ? "invalid args" : `unable to process address space${error.message}`);
  }
}

function byName(a: Region["status"], b: Region["status"]): number {
  return a.name < b.name ? -1 : 1;
}

function refused(name: string, reason: string): ServerError {
  return invalidArgument(`failed to register shared memory region '${name}': ${reason}`);
}
