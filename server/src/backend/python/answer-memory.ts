/**
 * Memory into which a process puts its large answers, and which the server reads where it lies. A place belongs to the server
 * from the message that names it until it is given back: by whoever has sent the answer, else by the garbage collector when
 * nobody looks at it any more. Knows no message.
 */
import { SparseMemory } from "../../native/memory-file.ts";

/** Address space; memory is only used where answers lie. What does not fit takes another way. */
const BYTE_LENGTH: number = 256 * 1024 * 1024;
/** How long the process may wait for places when no message goes its way that could take them along. */
const FLUSH_MS = 20;

/** One place that was lent at least once. */
interface Place {
  readonly offset: number;
  readonly capacity: number;
  isLent: boolean;
}

/** A place that nobody looks at, with its view, to be lent again. */
interface IdlePlace {
  readonly place: Place;
  readonly bytes: Uint8Array;
}

export class AnswerMemory implements Disposable {
  readonly #memory: SparseMemory | undefined;
  readonly #idle = new Map<number, IdlePlace>();
  readonly #lent = new Set<number>();
  readonly #flush: () => void;
  #returned: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `flush`: what was given back should be told to the process. */
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

  /** Places that the server has. */
  get numLent(): number {
    return this.#lent.size;
  }

  /**
   * The data at a place that the process hands over, and how to give it back: once nobody reads the data any more, or never.
   * @throws RangeError when there is no such place, or it is lent already
   */
  take(offset: number, capacity: number, byteLength: number): { data: Uint8Array; release: () => void } {
    const isInside = offset >= 0 && byteLength >= 0 && byteLength <= capacity && offset + capacity <= this.byteLength;
    if (!isInside || this.#memory === undefined || this.#isClosed || this.#lent.has(offset)) {
      throw new RangeError(`no answer of ${byteLength} bytes can lie at ${offset}`);
    }
    const idle = this.#idle.get(offset);
    this.#idle.delete(offset);
    const { place, bytes } = idle?.place.capacity === capacity ? idle : this.#open(this.#memory, offset, capacity);
    place.isLent = true;
    this.#lent.add(offset);
    return { data: bytes.subarray(0, byteLength), release: () => this.#release(place, bytes) };
  }

  /** What was given back since the last call. */
  takeReturned(): readonly number[] {
    const returned = this.#returned;
    if (returned.length > 0) this.#returned = [];
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return returned;
  }

  /** The process has ended. What is lent can be read until it is given back. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#idle.clear();
    clearTimeout(this.#timer);
    if (this.#lent.size === 0) this.#memory?.[Symbol.dispose]();
  }

  #open(memory: SparseMemory, offset: number, capacity: number): IdlePlace {
    const place: Place = { offset, capacity, isLent: false };
    return { place, bytes: memory.view(offset, capacity, () => this.#giveBack(place)) };
  }

  #release(place: Place, bytes: Uint8Array): void {
    if (!this.#giveBack(place) || this.#isClosed) return;
    this.#idle.set(place.offset, { place, bytes });
  }

  #giveBack(place: Place): boolean {
    if (!place.isLent) return false;
    place.isLent = false;
    this.#lent.delete(place.offset);
    if (this.#isClosed) {
      if (this.#lent.size === 0) this.#memory?.[Symbol.dispose]();
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
