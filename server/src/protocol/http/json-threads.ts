/**
 * Threads that read and write large JSON beside the event loop, so that streams do not queue behind it. They start when they
 * are first needed and keep nothing alive. What a thread cannot do, or does not live to do, the caller does itself.
 */
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { JsonDatatype, JsonInferRequest } from "@nereid/wire";
import type { JsonAnswer, JsonTask } from "./json-messages.ts";

/** Shorter texts take less than a millisecond. */
export const MIN_TEXT_BYTES: number = 128 * 1024;
/** The same for outputs: a byte becomes up to five characters. */
export const MIN_OUTPUT_BYTES: number = 32 * 1024;
const PROGRAM: URL = new URL(`./json-thread${extname(import.meta.url)}`, import.meta.url);
/** Tasks of one thread; what comes beyond is done by the event loop, in slices. */
const MAX_WAITING = 16;

type NewTask = JsonTask extends infer Task ? (Task extends JsonTask ? Omit<Task, "id"> : never) : never;
type OnAnswer = (answer: JsonAnswer | undefined) => void;

export type ReadOutcome =
  | { readonly request: JsonInferRequest; readonly text?: undefined }
  /** To be read by the caller; absent text: it is the one that was given. */
  | { readonly request?: undefined; readonly text: Uint8Array | undefined };

export class JsonThreads {
  #max: number;
  readonly #program: URL;
  readonly #threads: JsonThread[] = [];

  /** `max`: threads at most; 0 = none. */
  constructor(max: number, program: URL = PROGRAM) {
    this.#max = max;
    this.#program = program;
  }

  /** Undefined: not here. The text is the thread's until it comes back. */
  read(text: Uint8Array): Promise<ReadOutcome> | undefined {
    const thread = text.length < MIN_TEXT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const { buffer } = text;
    // Only memory that nobody else has a part of can be given away, and only to a thread that is known to work.
    const isOwn = thread.hasAnswered && buffer instanceof ArrayBuffer && buffer.byteLength === text.length;
    const own = isOwn ? new Uint8Array(buffer) : new Uint8Array(text);
    return thread.run({ text: own }, [own.buffer]).then((answer) => {
      if (answer !== undefined && "request" in answer) return { request: answer.request };
      // A thread that died takes with it what it was given.
      return { text: answer !== undefined && "text" in answer ? answer.text : isOwn ? undefined : text };
    });
  }

  /** Undefined: not here. Resolves with undefined when it could not be done. */
  write(datatype: JsonDatatype, data: Uint8Array, count: number): Promise<Uint8Array | undefined> | undefined {
    const thread = data.length < MIN_OUTPUT_BYTES ? undefined : this.#free();
    if (thread === undefined) return undefined;
    const own = new Uint8Array(data);
    return thread
      .run({ datatype, data: own, count }, [own.buffer])
      .then((answer) => (answer !== undefined && "written" in answer ? answer.written : undefined));
  }

  /** The least busy thread, a new one when all are busy. */
  #free(): JsonThread | undefined {
    let best: JsonThread | undefined;
    for (const thread of this.#threads) if (best === undefined || thread.numWaiting < best.numWaiting) best = thread;
    if ((best === undefined || best.numWaiting > 0) && this.#threads.length < this.#max) {
      best = new JsonThread(this.#program, (gone) => this.#lose(gone));
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

class JsonThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, OnAnswer>();
  #nextId = 0;
  hasAnswered = false;

  /** `onGone`: it has ended; nobody asked it to. */
  constructor(program: URL, onGone: (thread: JsonThread) => void) {
    this.#worker = new Worker(program, { name: "json" });
    this.#worker.unref();
    this.#worker.on("message", (answer: JsonAnswer) => {
      this.hasAnswered = true;
      this.#done(answer.id, answer);
    });
    // The end follows.
    this.#worker.on("error", () => undefined);
    this.#worker.on("exit", () => {
      onGone(this);
      for (const id of [...this.#waiting.keys()]) this.#done(id, undefined);
    });
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  run(task: NewTask, buffers: ArrayBuffer[]): Promise<JsonAnswer | undefined> {
    const id = this.#nextId++;
    // A task under way keeps the process alive, as any request does.
    if (this.#waiting.size === 0) this.#worker.ref();
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#worker.postMessage({ ...task, id }, buffers);
    });
  }

  #done(id: number, answer: JsonAnswer | undefined): void {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    resolve?.(answer);
  }
}
