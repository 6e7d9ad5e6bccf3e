/**
 * Shared memory into which a process writes large responses; the server reads them in place. A region belongs to the
 * server from the message that names it until it is returned: by the sender of the response, or by the garbage
 * collector once the view is unreachable. Knows no message.
 */
import { SparseMemory } from "../../native/memory-file.ts";

/** Address space; physical memory is only used by responses. Data that does not fit goes through the socket. */
const BYTE_LENGTH: number = 256 * 1024 * 1024;
/** Longest time, in ms, that the process waits for returned regions when no message can carry them. */
const FLUSH_MS = 20;

/** A region that was leased at least once. */
interface Place {
  readonly offset: number;
  readonly capacity: number;
  isLeased: boolean;
}

/** A free region with its view, to be leased again. */
interface IdlePlace {
  readonly place: Place;
  readonly bytes: Uint8Array;
}

export class AnswerMemory implements Disposable {
  readonly #memory: SparseMemory | undefined;
  readonly #idle = new Map<number, IdlePlace>();
  readonly #leased = new Set<number>();
  readonly #flush: () => void;
  #returned: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `flush` asks the owner to send the returned regions to the process. */
  constructor(name: string, flush: () => void) {
    this.#memory = tryOpen(name);
    this.#flush = flush;
  }

  /** For the child to inherit. */
  get descriptor(): number | undefined {
    return this.#memory?.descriptor;
  }

  /** 0 where there is none. */
  get byteLength(): number {
    return this.#memory?.byteLength ?? 0;
  }

  /** Regions that the server holds. */
  get numLeased(): number {
    return this.#leased.size;
  }

  /**
   * The data of a region that the process hands over, and the function that returns it once no reader is left.
   * @throws RangeError when the region does not exist or is leased already
   */
  take(offset: number, capacity: number, byteLength: number): { data: Uint8Array; release: () => void } {
    const isInside = offset >= 0 && byteLength >= 0 && byteLength <= capacity && offset + capacity <= this.byteLength;
    if (!isInside || this.#memory === undefined || this.#isClosed || this.#leased.has(offset)) {
      throw new RangeError(`no answer of ${byteLength} bytes can lie at ${offset}`);
    }
    const idle = this.#idle.get(offset);
    this.#idle.delete(offset);
    const { place, bytes } = idle?.place.capacity === capacity ? idle : this.#open(this.#memory, offset, capacity);
    place.isLeased = true;
    this.#leased.add(offset);
    return { data: bytes.subarray(0, byteLength), release: () => this.#release(place, bytes) };
  }

  /** Regions returned since the last call. */
  takeReturned(): readonly number[] {
    const returned = this.#returned;
    if (returned.length > 0) this.#returned = [];
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return returned;
  }

  /** The process has ended. Leased regions stay readable until they are returned. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#idle.clear();
    clearTimeout(this.#timer);
    if (this.#leased.size === 0) this.#memory?.[Symbol.dispose]();
  }

  #open(memory: SparseMemory, offset: number, capacity: number): IdlePlace {
    const place: Place = { offset, capacity, isLeased: false };
    return { place, bytes: memory.view(offset, capacity, () => this.#giveBack(place)) };
  }

  #release(place: Place, bytes: Uint8Array): void {
    if (!this.#giveBack(place) || this.#isClosed) return;
    this.#idle.set(place.offset, { place, bytes });
  }

  #giveBack(place: Place): boolean {
    if (!place.isLeased) return false;
    place.isLeased = false;
    this.#leased.delete(place.offset);
    if (this.#isClosed) {
      if (this.#leased.size === 0) this.#memory?.[Symbol.dispose]();
    } else {
      this.#returned.push(place.offset);
      this.#timer ??= setTimeout(this.#flush, FLUSH_MS).unref();
    }
    return true;
  }
}

function tryOpen(name: string): SparseMemory | undefined {
  try {
    return new SparseMemory(name, BYTE_LENGTH);
  } catch {
    return undefined;
  }
}
