/**
 * The regions of shared memory that clients have registered, one table for all protocols. Texts are those of Triton. Knows
 * no request and no wire format. Clients that may register regions are trusted as far as processes of the same machine are:
 * they can change or shorten an object while a model reads it.
 */
import { MAX_SHARED_MEMORY_REGION_BYTES, MAX_SHARED_MEMORY_REGIONS } from "../core/limits.ts";
import { ServerError } from "../core/server-error.ts";
import { MappingError, mapSharedMemory, type SharedMapping } from "../native/posix-memory.ts";

const PLAIN_NAME = /^[A-Za-z0-9_.-]+$/;
/** Objects of this name carry the messages of Triton's Python processes: whoever writes there runs code. */
const RESERVED_PREFIX = "triton_python_backend_shm_region_";
const UINT64_MAX = 2n ** 64n - 1n;

export interface RegionStatus {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly byte_size: number;
}

/** A registered region. It outlives its registration for as long as requests use it. */
export class Region {
  readonly status: RegionStatus;
  readonly #mapping: SharedMapping;
  #users = 0;
  #isRegistered = true;

  constructor(status: RegionStatus, mapping: SharedMapping) {
    this.status = status;
    this.#mapping = mapping;
  }

  acquire(): void {
    this.#users += 1;
  }

  release(): void {
    this.#users -= 1;
    this.#closeIfUnused();
  }

  unregister(): void {
    this.#isRegistered = false;
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (!this.#isRegistered && this.#users === 0) this.#mapping.close();
  }

  /**
   * The bytes of a checked part. Offset and size are what a client sent: any unsigned number.
   * @throws ServerError when the part is not within the region, or the region is no longer within its object
   */
  slice(offset: bigint, byteSize: bigint): Uint8Array {
    const { name, byte_size } = this.status;
    if (offset >= BigInt(byte_size)) throw invalid(`Invalid offset for shared memory region: '${name}'`);
    if (byteSize > UINT64_MAX - offset) {
      throw invalid(
        `Integer overflow detected: byte_size (${byteSize}) + offset (${offset}) exceeds maximum value (${UINT64_MAX}) for region '${name}'`,
      );
    }
    if (offset + byteSize > BigInt(byte_size)) throw outOfBounds(name);
    this.expectIntact();
    return this.#mapping.bytes().subarray(Number(offset), Number(offset + byteSize));
  }

  /** Whether bytes of this buffer are the region's. */
  isBehind(buffer: ArrayBufferLike): boolean {
    return buffer === this.#mapping.bytes().buffer;
  }

  /** @throws ServerError when the object behind the region has become too short for it */
  expectIntact(): void {
    if (!this.#mapping.isIntact()) throw outOfBounds(this.status.name);
  }
}

export class SharedMemoryRegions {
  /** Whether clients may register regions; where not, there are none. */
  readonly isAllowed: boolean;
  readonly #regions = new Map<string, Region>();

  constructor(isAllowed: boolean) {
    this.isAllowed = isAllowed;
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
    this.#expectNew(name, key);
    const numBytes = Number(byteSize);
    const end = Number(offset + byteSize);
    if (!Number.isSafeInteger(end)) throw refused(name, "invalid args");
    if (numBytes > MAX_SHARED_MEMORY_REGION_BYTES) {
      throw refused(name, `${numBytes} bytes are more than the ${MAX_SHARED_MEMORY_REGION_BYTES} of one region`);
    }
    const mapping = mapObject(name, key, Number(offset), numBytes);
    this.#regions.set(name, new Region({ name, key, offset: Number(offset), byte_size: numBytes }, mapping));
  }

  #expectNew(name: string, key: string): void {
    if (objectName(key).startsWith(RESERVED_PREFIX)) {
      throw invalid(
        `cannot register shared memory region '${name}' with key '${key}' as the key contains the reserved prefix '${RESERVED_PREFIX}'`,
      );
    }
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

  /** Name "" = all. One that is not registered is no error. Requests that use a region keep its memory until they end. */
  unregister(name: string): void {
    this.expectAllowed();
    for (const region of name === "" ? [...this.#regions.values()] : [this.#regions.get(name)]) {
      if (region === undefined) continue;
      this.#regions.delete(region.status.name);
      region.unregister();
    }
  }

  /** Name "" = all, by name. @throws ServerError not_found */
  systemStatus(name: string): readonly RegionStatus[] {
    if (name === "") return [...this.#regions.values()].map(({ status }) => status).sort(byName);
    const region = this.#regions.get(name);
    if (region !== undefined) return [region.status];
    throw new ServerError("not_found", `Unable to find system shared memory region: '${name}'`);
  }

  /** There is never a region of CUDA memory. @throws ServerError not_found for any name */
  cudaStatus(name: string): readonly never[] {
    if (name === "") return [];
    const message = this.#regions.has(name)
      ? `The region named '${name}' is registered as system shared memory, not CUDA shared memory`
      : `Unable to find cuda shared memory region: '${name}'`;
    throw new ServerError("not_found", message);
  }

  refuseCuda(name: string): never {
    throw invalid(`failed to register CUDA shared memory region: '${name}', GPUs not supported`);
  }

  /** @throws ServerError not_found */
  find(name: string): Region {
    const region = this.#regions.get(name);
    if (region !== undefined) return region;
    throw new ServerError("not_found", `Unable to find shared memory region: '${name}'`);
  }
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

function byName(a: RegionStatus, b: RegionStatus): number {
  return a.name < b.name ? -1 : 1;
}

function refused(name: string, reason: string): ServerError {
  return invalid(`failed to register shared memory region '${name}': ${reason}`);
}

function outOfBounds(name: string): ServerError {
  return invalid(`Invalid offset + byte size for shared memory region: '${name}'`);
}

function invalid(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}
