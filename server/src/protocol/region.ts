/**
 * One registered region of shared memory and its memory (Triton's system shared memory extension). Texts are Triton's.
 * Knows no table and no wire format.
 */
import { invalidArgument, type ServerError } from "../core/server-error.ts";
import type { SharedMapping } from "../native/posix-memory.ts";

const UINT64_MAX = 2n ** 64n - 1n;

export interface SystemStatus {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly byte_size: number;
}

export interface CudaRegionStatus {
  readonly name: string;
  readonly device_id: number;
  readonly byte_size: number;
}

export type RegionKind = "system" | "cuda";

/** The bytes of a region, wherever they are. Parts are within the region. */
export interface RegionMemory {
  /** The bytes themselves where the host reaches them, or a copy. @throws ServerError */
  read(offset: number, byteSize: number): Uint8Array;
  /** Returns when they are there. @throws ServerError */
  write(offset: number, data: Uint8Array): void;
  /** False when what is behind the region has become shorter than it: nothing of it must be touched. */
  isIntact(): boolean;
  /** Whether bytes of this buffer are the region's. */
  isBehind(buffer: ArrayBufferLike): boolean;
  close(): void;
}

/** A registered region. Unregistering during use takes effect when the last request has ended. */
export class Region {
  readonly kind: RegionKind;
  readonly status: SystemStatus | CudaRegionStatus;
  readonly #memory: RegionMemory;
  #users = 0;
  #onUnused: (() => void) | undefined;

  constructor(kind: RegionKind, status: SystemStatus | CudaRegionStatus, memory: RegionMemory) {
    this.kind = kind;
    this.status = status;
    this.#memory = memory;
  }

  acquire(): void {
    this.#users += 1;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#end();
  }

  /** `onUnused`: its name is free again, now or once no request uses it. */
  unregister(onUnused: () => void): void {
    this.#onUnused = onUnused;
    if (this.#users === 0) this.#end();
  }

  #end(): void {
    if (this.#onUnused === undefined) return;
    this.#onUnused();
    this.#onUnused = undefined;
    this.#memory.close();
  }

  /**
   * The bytes of a part: the region's own where the host reaches them. Offset and size are what a client sent: any unsigned number.
   * @throws ServerError when the part is not within the region, or the region is no longer within its object
   */
  slice(offset: bigint, byteSize: bigint): Uint8Array {
    this.expectPart(offset, byteSize);
    return this.#memory.read(Number(offset), Number(byteSize));
  }

  /** @throws ServerError, as `slice()` */
  expectPart(offset: bigint, byteSize: bigint): void {
    const { name, byte_size } = this.status;
    if (offset >= BigInt(byte_size)) throw invalidArgument(`Invalid offset for shared memory region: '${name}'`);
    if (byteSize > UINT64_MAX - offset) {
      throw invalidArgument(
        `Integer overflow detected: byte_size (${byteSize}) + offset (${offset}) exceeds maximum value (${UINT64_MAX}) for region '${name}'`,
      );
    }
    if (offset + byteSize > BigInt(byte_size)) throw outOfBounds(name);
    this.#expectIntact();
  }

  /** Into a part that was checked. @throws ServerError when the object behind the region has become too short for it */
  write(offset: number, data: Uint8Array): void {
    this.#expectIntact();
    this.#memory.write(offset, data);
  }

  isBehind(buffer: ArrayBufferLike): boolean {
    return this.#memory.isBehind(buffer);
  }

  #expectIntact(): void {
    if (!this.#memory.isIntact()) throw outOfBounds(this.status.name);
  }
}

/** Memory of the host that is mapped here. */
export class MappedMemory implements RegionMemory {
  readonly #mapping: SharedMapping;

  constructor(mapping: SharedMapping) {
    this.#mapping = mapping;
  }

  read(offset: number, byteSize: number): Uint8Array {
    return this.#mapping.bytes().subarray(offset, offset + byteSize);
  }

  write(offset: number, data: Uint8Array): void {
    this.#mapping.bytes().set(data, offset);
  }

  isIntact(): boolean {
    return this.#mapping.isIntact();
  }

  isBehind(buffer: ArrayBufferLike): boolean {
    return buffer === this.#mapping.bytes().buffer;
  }

  close(): void {
    this.#mapping.close();
  }
}

function outOfBounds(name: string): ServerError {
  return invalidArgument(`Invalid offset + byte size for shared memory region: '${name}'`);
}
