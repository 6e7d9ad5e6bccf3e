/**
 * Threads that read and write large JSON beside the event loop, so that streams do not queue behind it. They start when they
 * are first needed and keep nothing alive. What a thread cannot do, or does not live to do, the caller does itself.
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
import type { Asker } from "../http-call.ts";
import { bufferOf, copyInto, LentMemory, type Loan } from "../transport/buffer-pool.ts";
import type { JsonAnswer, JsonTask, JsonThreadData, Place } from "./json-messages.ts";

/** Shorter texts take less than a millisecond. */
export const MIN_TEXT_BYTES: number = 128 * 1024;
/** The same for outputs: a byte becomes up to five characters. */
export const MIN_OUTPUT_BYTES: number = 32 * 1024;
const PROGRAM: URL = new URL(`./json-thread${extname(import.meta.url)}`, import.meta.url);
/** Tasks of one thread; what comes beyond is done by the event loop, in slices. */
const MAX_WAITING = 16;
/** Tasks that a thread has, so that it need not wait for the next. The others are still with us, and can be dropped. */
const MAX_HANDED_OVER = 2;
/** For each thread: the texts of a few large requests and their answers. */
const LENT_BYTES: number = 64 * 1024 * 1024;
const MAX_LENT_BYTES: number = 1024 * 1024 * 1024;
/** What a byte of an output becomes, with the comma: a float of four 24 characters, a small integer of one five. */
const USUAL_TEXT_BYTES = 6;
/** What the writer wants to have left for the next slice. */
const SPARE_BYTES: number = 1024 * 1024;

type NewTask = JsonTask extends infer Task ? (Task extends JsonTask ? Omit<Task, "id"> : never) : never;
type OnAnswer = (answer: JsonAnswer | undefined) => void;

interface QueuedTask {
  readonly task: NewTask;
  /** Go with the task. */
  readonly buffers: ArrayBuffer[];
  readonly asker: Asker | undefined;
  readonly resolve: OnAnswer;
}

export type ReadOutcome =
  | { readonly request: JsonInferRequest; readonly text?: undefined }
  /** To be read by the caller; absent text: it is the one that was given. */
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

  /** Memory for a large text that is to be read; undefined where there is none. */
  lend(numBytes: number): Loan | undefined {
    return numBytes < MIN_TEXT_BYTES || this.#max === 0 ? undefined : this.#sharedMemory()?.lent.lend(numBytes);
  }

  /** Made when it is first needed. */
  #sharedMemory(): ThreadMemory | undefined {
    if (this.#memory === undefined && this.#hasMemory) {
      this.#memory = threadMemory(this.#max);
      this.#hasMemory = this.#memory !== undefined;
    }
    return this.#memory;
  }

  /** Undefined: not here. The text is the thread's until it comes back. Not read where the asker is gone before its turn. */
  read(text: Uint8Array, asker?: Asker): Promise<ReadOutcome> | undefined {
    const thread = text.length < MIN_TEXT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const { buffer } = text;
    if (thread.sharesMemory && buffer === this.#memory?.memory.buffer)
      return thread.run({ text: placeOf(text) }, [], asker).then((answer) => outcome(answer, text));
    // Only memory that nobody else has a part of can be given away, and only to a thread that is known to work.
    const isOwn = thread.hasAnswered && buffer instanceof ArrayBuffer && buffer.byteLength === text.length;
    const own = isOwn ? new Uint8Array(buffer) : new Uint8Array(text);
    // A thread that died takes with it what it was given, which leaves nothing here.
    return thread
      .run({ text: own }, [own.buffer], asker)
      .then((answer) => outcome(answer, text.length > 0 ? text : undefined));
  }

  /**
   * Undefined: not here. Resolves with undefined when it could not be done, or the asker is gone before its turn. With the
   * asker's `atEnd` the text may lie in memory that is given back at the end of the request.
   */
  write(
    datatype: JsonDatatype,
    data: Uint8Array,
    count: number,
    asker?: Asker,
  ): Promise<Uint8Array | undefined> | undefined {
    const atEnd = asker?.atEnd;
    const thread = data.length < MIN_OUTPUT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const lent = atEnd && thread.sharesMemory ? this.#memory?.lent : undefined;
    const loan = lent?.lend(data.length * (1 + USUAL_TEXT_BYTES) + SPARE_BYTES);
    if (loan !== undefined) {
      const written = writeInto(loan.bytes, thread, { datatype, data, count }, asker);
      // When the client has gone the thread may still be writing.
      atEnd?.(() => void written.then(loan.release));
      return written;
    }
    const own = new Uint8Array(data);
    return thread.run({ datatype, data: own, count }, [own.buffer], asker).then((answer) => writtenText(answer));
  }

  /** The least busy thread, a new one when all are busy. */
  #free(): JsonThread | undefined {
    let best: JsonThread | undefined;
    for (const thread of this.#threads) if (best === undefined || thread.numWaiting < best.numWaiting) best = thread;
    if ((best === undefined || best.numWaiting > 0) && this.#threads.length < this.#max) {
      best = new JsonThread(this.#program, this.#sharedMemory(), (gone) => this.#lose(gone));
      this.#threads.push(best);
    }
    return best === undefined || best.numWaiting >= MAX_WAITING ? undefined : best;
  }

  /** One that never did anything shows that there is no use in more of them. */
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

/** The data goes into the memory too, in front of its text. Never rejects. */
async function writeInto(
  memory: Uint8Array,
  thread: JsonThread,
  { datatype, data, count }: { readonly datatype: JsonDatatype; readonly data: Uint8Array; readonly count: number },
  asker: Asker | undefined,
): Promise<Uint8Array | undefined> {
  copyInto(bufferOf(memory), 0, data);
  const room = memory.subarray(data.length);
  const places = { data: placeOf(memory.subarray(0, data.length)), room: placeOf(room) };
  const answer = await thread.run({ datatype, count, ...places }, [], asker);
  return writtenText(answer, room);
}

function placeOf({ byteOffset, byteLength }: Uint8Array): Place {
  return { at: byteOffset, numBytes: byteLength };
}

function writtenText(answer: JsonAnswer | undefined, room?: Uint8Array): Uint8Array | undefined {
  if (answer === undefined || !("written" in answer)) return undefined;
  return typeof answer.written === "number" ? room?.subarray(0, answer.written) : answer.written;
}

/** What threads share: the memory of their kernels, and who lends parts of it. */
interface ThreadMemory {
  readonly memory: FloatMemory;
  readonly lent: LentMemory;
  /** For each thread that may start, set apart before requests take all that there is. */
  readonly scratches: Loan[];
}

function threadMemory(maxThreads: number): ThreadMemory | undefined {
  const memory = floatMemory(Math.min(maxThreads * LENT_BYTES, MAX_LENT_BYTES), true);
  if (memory === undefined) return undefined;
  const { buffer } = memory;
  const lent = new LentMemory(buffer, FIRST_FREE_BYTE, buffer.byteLength - SPARE_BYTES);
  const scratches = Array.from({ length: maxThreads }, () => lent.lend(SCRATCH_BYTES));
  return { memory, lent, scratches: scratches.filter((loan) => loan !== undefined) };
}

class JsonThread {
  readonly #worker: Worker;
  /** Not handed over yet. */
  readonly #queue: QueuedTask[] = [];
  readonly #handedOver = new Map<number, OnAnswer>();
  #nextId = 0;
  hasAnswered = false;
  /** Whether it can work in the memory for all. */
  readonly sharesMemory: boolean;

  /** `onGone`: it has ended; nobody asked it to. */
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
    // The end follows.
    this.#worker.on("error", () => undefined);
    this.#worker.on("exit", () => {
      onGone(this);
      if (scratch !== undefined) shared?.scratches.push(scratch);
      for (const resolve of this.#handedOver.values()) resolve(undefined);
      for (const { resolve } of this.#queue) resolve(undefined);
    });
  }

  get numWaiting(): number {
    return this.#handedOver.size + this.#queue.length;
  }

  run(task: NewTask, buffers: ArrayBuffer[], asker: Asker | undefined): Promise<JsonAnswer | undefined> {
    // A task under way keeps the process alive, as any request does.
    if (this.numWaiting === 0) this.#worker.ref();
    return new Promise((resolve) => {
      this.#queue.push({ task, buffers, asker, resolve });
      this.#handOver();
    });
  }

  #handOver(): void {
    while (this.#handedOver.size < MAX_HANDED_OVER) {
      const next = this.#queue.shift();
      if (next === undefined) break;
      if (next.asker?.isCancelled === true) next.resolve(undefined);
      else this.#post(next);
    }
    if (this.numWaiting === 0) this.#worker.unref();
  }

  #post({ task, buffers, resolve }: QueuedTask): void {
    const id = this.#nextId++;
    this.#handedOver.set(id, resolve);
    this.#worker.postMessage({ ...task, id }, buffers);
  }

  #done(answer: JsonAnswer): void {
    const resolve = this.#handedOver.get(answer.id);
    this.#handedOver.delete(answer.id);
    this.#handOver();
    resolve?.(answer);
  }
}
