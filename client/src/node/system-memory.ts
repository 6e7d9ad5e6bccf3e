/**
 * A POSIX shared memory object of this machine as a file below /dev/shm (Linux, shm_overview(7)). Node maps no memory, so that
 * tensors are copied in and out, once each; they never travel over a connection.
 */
import { closeSync, constants, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { platform } from "node:process";
import type { Datatype } from "@nereid/wire";
import type { SystemRegion } from "../server-resources.ts";
import { bytesOf, elementsOf, type InputElements, type OutputElements, type RegionPart } from "../tensor.ts";

const FOLDER = "/dev/shm";
const OWNER_ONLY = 0o600;

export interface SystemMemoryOptions {
  /** Name under which it is registered. */
  readonly name: string;
  /** Name of the object: "/" and a file name. */
  readonly key: string;
  readonly byteSize: number;
  /** Opens an object that exists. Default: it must not exist, and `close()` removes it. */
  readonly isExisting?: boolean | undefined;
}

/** The creator disposes of it. */
export class SystemMemory implements Disposable {
  /** Argument of `sharedMemory.registerSystem()`. */
  readonly region: SystemRegion;
  readonly #path: string;
  readonly #isOwner: boolean;
  #file: number | undefined;

  /** @throws RangeError for a name or size that cannot be @throws Error of the system, e.g. when the object exists */
  constructor({ name, key, byteSize, isExisting = false }: SystemMemoryOptions) {
    if (platform !== "linux") throw new RangeError(`shared memory needs Linux, this is ${platform}`);
    if (!/^\/[^/]+$/.test(key) || key === "/." || key === "/..") {
      throw new RangeError(`key '${key}': expected "/" and a file name`);
    }
    if (!(Number.isSafeInteger(byteSize) && byteSize > 0)) {
      throw new RangeError(`byteSize: expected 1 or more, got ${byteSize}`);
    }
    this.region = { name, key, byteSize };
    this.#path = FOLDER + key;
    this.#isOwner = !isExisting;
    const { O_RDWR, O_CREAT, O_EXCL } = constants;
    this.#file = openSync(this.#path, isExisting ? O_RDWR : O_RDWR | O_CREAT | O_EXCL, OWNER_ONLY);
    if (!isExisting) ftruncateSync(this.#file, byteSize);
  }

  /** Copies elements to `offset`. The result stands for them as elements of `tensor()`. @throws RangeError past the end */
  write<D extends Datatype>(datatype: D, elements: InputElements[D], offset = 0): RegionPart {
    const data = bytesOf(`shared memory '${this.region.name}'`, datatype, elements);
    this.#expectRange(offset, data.length);
    for (let done = 0; done < data.length; ) {
      done += writeSync(this.#descriptor(), data, done, data.length - done, offset + done);
    }
    return { region: this.region.name, byteSize: data.length, offset };
  }

  /** Place for an output. @throws RangeError past the end */
  part(byteSize: number, offset = 0): RegionPart {
    this.#expectRange(offset, byteSize);
    return { region: this.region.name, byteSize, offset };
  }

  /** A copy of elements that the server wrote. `byteSize` of BYTES is that of all elements with their lengths. @throws RangeError past the end */
  read<D extends Datatype>(datatype: D, byteSize: number, offset = 0): OutputElements[D] {
    this.#expectRange(offset, byteSize);
    const data = new Uint8Array(byteSize);
    for (let done = 0; done < byteSize; ) {
      const count = readSync(this.#descriptor(), data, done, byteSize - done, offset + done);
      if (count === 0) throw new RangeError(`shared memory '${this.region.name}' ends at byte ${offset + done}`);
      done += count;
    }
    return elementsOf(datatype, data) as OutputElements[D];
  }

  /** Unregister it first. The object goes when it was made here. */
  close(): void {
    if (this.#file === undefined) return;
    closeSync(this.#file);
    this.#file = undefined;
    if (this.#isOwner) unlinkSync(this.#path);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #descriptor(): number {
    if (this.#file === undefined) throw new RangeError(`shared memory '${this.region.name}' is closed`);
    return this.#file;
  }

  #expectRange(offset: number, size: number): void {
    const { name, byteSize } = this.region;
    if (Number.isSafeInteger(offset) && offset >= 0 && size >= 0 && offset + size <= byteSize) return;
    throw new RangeError(`shared memory '${name}' has ${byteSize} bytes, not ${size} at byte ${offset}`);
  }
}
