/**
 * Runs foreign code in a worker process, which may crash, hang or exhaust memory without affecting the server. When it
 * dies, its pending calls fail; the next call starts another. Knows nothing of the work.
 */
import process from "node:process";
import { inheritedFlags } from "../child-process/inherited-flags.ts";
import { endText, SupervisedProcess } from "../child-process/supervised-process.ts";
import { ServerError } from "../core/server-error.ts";
import type { WorkerCall, WorkerReply } from "./messages.ts";

export interface WorkerProcessOptions {
  /** File of the program, which calls `serveWorkerCalls`. */
  readonly program: string;
  /** Argument of its `prepare`, as JSON. */
  readonly data: unknown;
  /** For error messages: "the process that decodes images". */
  readonly title: string;
  /** Receives faults and exits. */
  readonly log: (message: string) => void;
  readonly env?: Readonly<Record<string, string>>;
}

interface Waiting {
  readonly resolve: (body: unknown) => void;
  readonly reject: (error: ServerError) => void;
}

/** Minimum time between two starts, against restart loops. */
const MIN_RESTART_MS = 500;
/** Time limit of a graceful exit. */
const CLOSE_LIMIT_MS = 5000;
const KEPT_STDERR_CHARS = 2000;

export class WorkerProcess {
  readonly #options: WorkerProcessOptions;
  readonly #waiting = new Map<number, Waiting>();
  #child: Promise<SupervisedProcess> | undefined;
  #running: SupervisedProcess | undefined;
  #startedMs = Number.NEGATIVE_INFINITY;
  #nextId = 1;
  #isClosed = false;

  constructor(options: WorkerProcessOptions) {
    this.#options = options;
  }

  /** @throws ServerError saying why it cannot do its work */
  async start(): Promise<void> {
    await this.#started();
  }

  /** @throws ServerError as the worker gave it, or "unavailable" when it died */
  async call(body: unknown): Promise<unknown> {
    const child = await this.#started();
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      child.send({ id, body } satisfies WorkerCall, () => this.#take(id)?.reject(this.#gone()));
    });
  }

  /** Ends it gracefully, or kills it after a time limit. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const child = this.#running;
    if (child === undefined) return;
    child.disconnect();
    await child.endedWithin(CLOSE_LIMIT_MS);
  }

  async #started(): Promise<SupervisedProcess> {
    if (this.#isClosed) throw this.#gone();
    if (this.#child === undefined && performance.now() - this.#startedMs < MIN_RESTART_MS) throw this.#gone();
    this.#child ??= this.#fork();
    return this.#child;
  }

  #fork(): Promise<SupervisedProcess> {
    this.#startedMs = performance.now();
    const { program, data, env, title, log } = this.#options;
    return new Promise((resolve, reject) => {
      let stderrTail = "";
      const launch = {
        command: process.execPath,
        args: [...inheritedFlags(process.execArgv), program, JSON.stringify(data)],
        environment: { ...process.env, ...env },
        channels: ["ipc"],
      } as const;
      const child: SupervisedProcess = new SupervisedProcess(launch, {
        output: (line, isError) => {
          if (isError) stderrTail = `${stderrTail}${line}\n`.slice(-KEPT_STDERR_CHARS);
        },
        ended: (end) => {
          if (this.#running !== child) return;
          this.#running = undefined;
          this.#child = undefined;
          if (!this.#isClosed) log(`${title} ended: ${endText(end)} ${stderrTail}`.trim());
          reject(this.#gone());
          this.#failAll();
        },
        message: (message) => {
          const answer = message as WorkerReply;
          if (answer.kind === "ready") resolve(child);
          else if (answer.kind === "unusable") {
            reject(new ServerError(answer.code, answer.problem));
            child.kill();
          } else this.#settle(answer);
        },
      });
      this.#running = child;
    });
  }

  #settle(answer: Exclude<WorkerReply, { kind: "ready" | "unusable" }>): void {
    const waiting = this.#take(answer.id);
    if (answer.kind === "result") waiting?.resolve(answer.body);
    else if (answer.kind === "refused") waiting?.reject(new ServerError(answer.code, answer.problem));
    else {
      this.#options.log(`${this.#options.title} failed: ${answer.fault}`);
      waiting?.reject(new ServerError("internal", "Internal error"));
    }
  }

  #take(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #failAll(): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject } of waiting) reject(this.#gone());
  }

  #gone(): ServerError {
    const then = this.#isClosed ? "" : " and starts again; try again";
    return new ServerError("unavailable", `${this.#options.title} has ended${then}`);
  }
}
