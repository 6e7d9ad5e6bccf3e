/**
 * Threads that read and write large JSON bodies of KServe V2 beside the event loop, so that streams do not queue behind them.
 * They start when first needed and keep no process alive. The caller does a task itself if a thread cannot, or dies. Why:
 * docs/decisions/004-floats-in-json.md.
 */
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import {
  FIRST_FREE_BYTE,
  type FloatMemory,
  floatMemory,
  type JsonDatatype,
  type JsonInferRequest,
  SCRATCH_BYTES,
} from "@nereid/wire";
import type { CallLifetime } from "../http-call.ts";
import { BufferPool, bufferOf, copyInto, type Lease } from "../transport/buffer-pool.ts";
import type { JsonAnswer, JsonTask, JsonThreadData, SharedRange } from "./json-messages.ts";

/** Shorter texts take less than a millisecond. */
export const MIN_TEXT_BYTES: number = 128 * 1024;
/** The same for outputs: a byte becomes up to five characters. */
export const MIN_OUTPUT_BYTES: number = 32 * 1024;
const PROGRAM: URL = new URL(`./json-thread${extname(import.meta.url)}`, import.meta.url);
/** Tasks queued for one thread; the event loop does further ones itself, in slices. */
const MAX_WAITING = 16;
/** Tasks sent to a thread, so that it never waits for the next. The others stay here and can be dropped. */
const MAX_SENT = 2;
/** For each thread: a few large requests and their responses. */
const POOL_BYTES: number = 64 * 1024 * 1024;
const MAX_POOL_BYTES: number = 1024 * 1024 * 1024;
/** Characters for a byte of output, with the comma: a 4-byte float takes 24, a 1-byte integer five. */
const TEXT_BYTES_PER_BYTE = 6;
/** Room that the writer reserves for the next slice. */
const SPARE_BYTES: number = 1024 * 1024;

type NewTask = JsonTask extends infer Task ? (Task extends JsonTask ? Omit<Task, "id"> : never) : never;
type OnAnswer = (answer: JsonAnswer | undefined) => void;

interface QueuedTask {
  readonly task: NewTask;
  /** Transferred with the task. */
  readonly buffers: ArrayBuffer[];
  readonly call: CallLifetime | undefined;
  readonly resolve: OnAnswer;
}

export type ReadOutcome =
  | { readonly request: JsonInferRequest; readonly text?: undefined }
  /** The caller must read `text`; absent: the thread died with it. */
  | { readonly request?: undefined; readonly text: Uint8Array | undefined };

export class JsonThreads {
  #max: number;
  readonly #program: URL;
  readonly #threads: JsonThread[] = [];
  #memory: ThreadMemory | undefined;
  #hasMemory = true;

  /** `max`: threads at most; 0 = none. */
  constructor(max: number, program: URL = PROGRAM) {
    this.#max = max;
    this.#program = program;
  }

  /** Memory for a large body; undefined if there is none. */
  lease(numBytes: number): Lease | undefined {
    return numBytes < MIN_TEXT_BYTES || this.#max === 0 ? undefined : this.#sharedMemory()?.pool.lease(numBytes);
  }

  /** Allocated when first needed. */
  #sharedMemory(): ThreadMemory | undefined {
    if (this.#memory === undefined && this.#hasMemory) {
      this.#memory = threadMemory(this.#max);
      this.#hasMemory = this.#memory !== undefined;
    }
    return this.#memory;
  }

  /** Undefined: no thread takes it. The text belongs to the thread until it comes back. Dropped if the call is cancelled first. */
  read(text: Uint8Array, call?: CallLifetime): Promise<ReadOutcome> | undefined {
    const thread = text.length < MIN_TEXT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const { buffer } = text;
    if (thread.sharesMemory && buffer === this.#memory?.memory.buffer)
      return thread.run({ text: rangeOf(text) }, [], call).then((answer) => outcome(answer, text));
    // A buffer is transferred only if nothing else uses a part of it, and only to a thread that has worked before.
    const isOwn = thread.hasAnswered && buffer instanceof ArrayBuffer && buffer.byteLength === text.length;
    const own = isOwn ? new Uint8Array(buffer) : new Uint8Array(text);
    // A thread that dies takes a transferred text with it: its view here is empty then.
    return thread
      .run({ text: own }, [own.buffer], call)
      .then((answer) => outcome(answer, text.length > 0 ? text : undefined));
  }

  /**
   * Undefined: no thread takes it. Resolves with undefined if it failed or the call was cancelled first. With the call's
   * `atEnd` the text may lie in leased memory, which is released at the end of the request.
   */
  write(
    datatype: JsonDatatype,
    data: Uint8Array,
    count: number,
    call?: CallLifetime,
  ): Promise<Uint8Array | undefined> | undefined {
    const atEnd = call?.atEnd;
    const thread = data.length < MIN_OUTPUT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const pool = atEnd && thread.sharesMemory ? this.#memory?.pool : undefined;
    const lease = pool?.lease(data.length * (1 + TEXT_BYTES_PER_BYTE) + SPARE_BYTES);
    if (lease !== undefined) {
      const written = writeInto(lease.bytes, thread, { datatype, data, count }, call);
      // After a disconnect the thread may still be writing.
      atEnd?.(() => void written.then(lease.release));
      return written;
    }
    const own = new Uint8Array(data);
    return thread.run({ datatype, data: own, count }, [own.buffer], call).then((answer) => writtenText(answer));
  }

  /** The least busy thread; a new one if all are busy. */
  #free(): JsonThread | undefined {
    let best: JsonThread | undefined;
    for (const thread of this.#threads) if (best === undefined || thread.numWaiting < best.numWaiting) best = thread;
    if ((best === undefined || best.numWaiting > 0) && this.#threads.length < this.#max) {
      best = new JsonThread(this.#program, this.#sharedMemory(), (gone) => this.#lose(gone));
      this.#threads.push(best);
    }
    return best === undefined || best.numWaiting >= MAX_WAITING ? undefined : best;
  }

  /** A thread that never answered shows that threads do not work here. */
  #lose(thread: JsonThread): void {
    this.#threads.splice(this.#threads.indexOf(thread), 1);
    if (!thread.hasAnswered) this.#max = 0;
  }
}

function outcome(answer: JsonAnswer | undefined, given: Uint8Array | undefined): ReadOutcome {
  if (answer !== undefined && "request" in answer) return { request: answer.request };
  const returned = answer !== undefined && "text" in answer ? answer.text : undefined;
  return { text: returned ?? given };
}

/** Copies the data into the leased memory, in front of its text. Never rejects. */
async function writeInto(
  memory: Uint8Array,
  thread: JsonThread,
  { datatype, data, count }: { readonly datatype: JsonDatatype; readonly data: Uint8Array; readonly count: number },
  call: CallLifetime | undefined,
): Promise<Uint8Array | undefined> {
  copyInto(bufferOf(memory), 0, data);
  const room = memory.subarray(data.length);
  const places = { data: rangeOf(memory.subarray(0, data.length)), room: rangeOf(room) };
  const answer = await thread.run({ datatype, count, ...places }, [], call);
  return writtenText(answer, room);
}

function rangeOf({ byteOffset, byteLength }: Uint8Array): SharedRange {
  return { at: byteOffset, numBytes: byteLength };
}

function writtenText(answer: JsonAnswer | undefined, room?: Uint8Array): Uint8Array | undefined {
  if (answer === undefined || !("written" in answer)) return undefined;
  return typeof answer.written === "number" ? room?.subarray(0, answer.written) : answer.written;
}

/** Memory that the threads share, and the pool that leases ranges of it. */
interface ThreadMemory {
  readonly memory: FloatMemory;
  readonly pool: BufferPool;
  /** Scratch ranges, one for each thread that may start: leased before requests can take all memory. */
  readonly scratches: Lease[];
}

function threadMemory(maxThreads: number): ThreadMemory | undefined {
  const memory = floatMemory(Math.min(maxThreads * POOL_BYTES, MAX_POOL_BYTES), true);
  if (memory === undefined) return undefined;
  const { buffer } = memory;
  const pool = new BufferPool(buffer, FIRST_FREE_BYTE, buffer.byteLength - SPARE_BYTES);
  const scratches = Array.from({ length: maxThreads }, () => pool.lease(SCRATCH_BYTES));
  return { memory, pool, scratches: scratches.filter((lease) => lease !== undefined) };
}

class JsonThread {
  readonly #worker: Worker;
  /** Not sent yet. */
  readonly #queue: QueuedTask[] = [];
  readonly #sent = new Map<number, OnAnswer>();
  #nextId = 0;
  hasAnswered = false;
  /** Whether it works in the shared memory. */
  readonly sharesMemory: boolean;

  /** `onGone`: called when the thread has ended, which it never should. */
  constructor(program: URL, shared: ThreadMemory | undefined, onGone: (thread: JsonThread) => void) {
    const scratch = shared?.scratches.pop();
    this.sharesMemory = scratch !== undefined;
    const workerData: JsonThreadData | undefined = shared &&
      scratch && { memory: shared.memory, scratchAt: scratch.bytes.byteOffset };
    this.#worker = new Worker(program, { name: "json", workerData });
    this.#worker.unref();
    this.#worker.on("message", (answer: JsonAnswer) => {
      this.hasAnswered = true;
      this.#done(answer);
    });
    // The event "exit" follows.
    this.#worker.on("error", () => undefined);
    this.#worker.on("exit", () => {
      onGone(this);
      if (scratch !== undefined) shared?.scratches.push(scratch);
      for (const resolve of this.#sent.values()) resolve(undefined);
      for (const { resolve } of this.#queue) resolve(undefined);
    });
  }

  get numWaiting(): number {
    return this.#sent.size + this.#queue.length;
  }

  run(task: NewTask, buffers: ArrayBuffer[], call: CallLifetime | undefined): Promise<JsonAnswer | undefined> {
    // A task in progress keeps the process alive, as any request does.
    if (this.numWaiting === 0) this.#worker.ref();
    return new Promise((resolve) => {
      this.#queue.push({ task, buffers, call, resolve });
      this.#sendNext();
    });
  }

  #sendNext(): void {
    while (this.#sent.size < MAX_SENT) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      if (next.call?.isCancelled === true) next.resolve(undefined);
      else this.#post(next);
    }
    if (this.numWaiting === 0) this.#worker.unref();
  }

  #post({ task, buffers, resolve }: QueuedTask): void {
    const id = this.#nextId++;
    this.#sent.set(id, resolve);
    this.#worker.postMessage({ ...task, id }, buffers);
  }

  #done(answer: JsonAnswer): void {
    const resolve = this.#sent.get(answer.id);
    this.#sent.delete(answer.id);
    this.#sendNext();
    resolve?.(answer);
  }
}
