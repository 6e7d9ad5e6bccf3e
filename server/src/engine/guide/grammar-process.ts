/**
 * The grammar library from the outside: a process, so that it can be ended at any moment and takes its memory along. Every
 * guide has a limit of CPU time; one that fails or takes more ends the process.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { inheritedFlags } from "../../child-process/inherited-flags.ts";
import { endText, SupervisedProcess } from "../../child-process/supervised-process.ts";
import type { GrammarAnswer, GrammarRequest } from "./grammar-messages.ts";
import type { Grammar } from "./guide-grammar.ts";

/** Compiling the library takes a third of a second. */
const START_LIMIT_MS = 30_000;
/** How much longer than its CPU time a job may take on a busy machine. */
const MAX_WALL_FACTOR = 10;
/** Linux counts the time of processes in hundredths of a second. */
const MS_PER_TICK = 10;

interface Waiting {
  readonly resolve: (answer: GrammarAnswer) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout | undefined;
}

/** Says that a job was given up, in contrast to one that the library refused. */
export class GrammarTimeout extends Error {}

export class GrammarProcess {
  readonly #child: SupervisedProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #limitMs: number;
  readonly #ready: Promise<GrammarAnswer>;
  #nextId = 1;
  #ended: Error | undefined;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
    const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
    const entry = fileURLToPath(new URL(`./grammar-worker.${extension}`, import.meta.url));
    const launch = {
      command: process.execPath,
      args: [...inheritedFlags(process.execArgv), entry],
      environment: process.env,
      channels: ["ipc"],
    } as const;
    this.#child = new SupervisedProcess(launch, {
      message: (answer) => this.#onAnswer(answer as GrammarAnswer),
      ended: (end) => this.end(new Error(`the grammar process ended with ${endText(end)}`)),
    });
    this.#ready = this.#wait(0, START_LIMIT_MS);
    this.#ready.catch(() => undefined); // every job gets an answer
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  async run(grammar: Grammar): Promise<GrammarAnswer> {
    await this.#ready;
    if (this.#ended !== undefined) throw this.#ended;
    const id = this.#nextId++;
    const done = this.#wait(id, this.#limitMs);
    this.#child.send({ id, grammar } satisfies GrammarRequest);
    return done;
  }

  /** Ends the process; what waits for it fails with `error`. */
  end(error: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#child.kill();
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#waiting.clear();
  }

  #wait(id: number, limitMs: number): Promise<GrammarAnswer> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { resolve, reject, timer: undefined };
      this.#waiting.set(id, waiting);
      this.#watch(waiting, limitMs, limitMs, tryCpuMs(this.#child.pid), performance.now());
    });
  }

  /** Looks again after `restMs`; waits on as long as the processor had other work to do. */
  #watch(waiting: Waiting, limitMs: number, restMs: number, startCpuMs: number | undefined, startMs: number): void {
    waiting.timer = setTimeout(() => {
      const cpuMs = tryCpuMs(this.#child.pid);
      const usedMs = cpuMs === undefined || startCpuMs === undefined ? limitMs : cpuMs - startCpuMs;
      if (usedMs >= limitMs || performance.now() - startMs > limitMs * MAX_WALL_FACTOR) {
        this.end(new GrammarTimeout(`no answer within ${limitMs / 1000} s`));
      } else this.#watch(waiting, limitMs, Math.max(MS_PER_TICK, limitMs - usedMs), startCpuMs, startMs);
    }, restMs);
    waiting.timer.unref();
  }

  #onAnswer(answer: GrammarAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    clearTimeout(waiting?.timer);
    if (answer.error === undefined) waiting?.resolve(answer);
    else {
      waiting?.reject(new Error(answer.error));
      this.end(new Error(`an earlier job failed: ${answer.error}`));
    }
  }
}

/** Processor time of a process so far; undefined where the system does not tell. */
function tryCpuMs(pid: number | undefined): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * MS_PER_TICK;
  } catch {
    return undefined;
  }
}
