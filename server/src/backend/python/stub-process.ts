/**
 * One Python process: spawned with an argument vector, spoken to over an inherited socket, ended with everything it started.
 * Delivers messages and the one end; knows neither requests nor restarts.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import process from "node:process";
import type { Logger } from "../../observe/log.ts";
import { LineSplitter } from "../supervision/line-splitter.ts";
import { AnswerMemory } from "./answer-memory.ts";
import { locateInClient } from "./client-region.ts";
import { FrameAssembler } from "./frame-assembler.ts";
import { LeasedMemory } from "./leased-memory.ts";
import { encodeCopied, encodeReturned, type Frame, type Handover } from "./messages.ts";
import type { Environment } from "./settings.ts";
import { SharedBlocks } from "./shared-blocks.ts";
import { Watchdog } from "./watchdog.ts";
import { type DataPlacer, type DataSource, FrameReader } from "./wire-codec.ts";

/** Messages that a process sent before it died are read first, for at most this long. */
const DRAIN_MS = 200;

export interface StubLaunch {
  readonly interpreter: string;
  readonly program: string;
  /** Shown in the process list and in the log. */
  readonly name: string;
  readonly folder: string;
  readonly environment: Environment;
  readonly log: Logger;
}

export interface StubListener {
  /** An exception ends the process: the two sides are out of sync. */
  message(kind: number, reader: FrameReader): void;
  /** Once. `cause` is a sentence without a period. */
  ended(cause: string): void;
}

export class StubProcess {
  /** Big data on its way to the process. */
  readonly blocks: SharedBlocks;
  /** Big data on its way from the process, and what finds no room there. */
  readonly #answers: AnswerMemory;
  readonly #lent: LeasedMemory;
  readonly watchdog: Watchdog | undefined;
  /** The system lets the process open what the server has open. Known from its greeting on. */
  mayOpenHere = false;
  readonly #placerOfOne: DataPlacer = { place: (data) => this.blocks.place(data), locate: locateInClient };
  readonly #child: ChildProcess;
  readonly #socket: Socket | undefined;
  readonly #listener: StubListener;
  readonly #ended: Promise<void>;
  #markEnded: () => void = () => undefined;
  #cause: string | undefined;
  #isOver = false;

  constructor(launch: StubLaunch, listener: StubListener) {
    this.#listener = listener;
    this.#ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    // A process group of its own: a terminal's Ctrl-C does not reach it, and its own children end with it.
    this.blocks = new SharedBlocks(`nereid-${launch.name}`);
    this.#answers = new AnswerMemory(`nereid-${launch.name}-answers`, () => this.send([]));
    this.#child = spawn(launch.interpreter, ["-u", "-B", launch.program, launch.name], {
      cwd: launch.folder,
      env: { ...launch.environment },
      stdio: [
        "ignore",
        "pipe",
        "pipe",
        "pipe",
        this.blocks.descriptor ?? "ignore",
        this.#answers.descriptor ?? "ignore",
      ],
      detached: true,
    });
    const { pid } = this.#child;
    this.#lent = new LeasedMemory(pid);
    this.watchdog = pid === undefined ? undefined : new Watchdog(pid, (cause) => this.kill(cause));
    this.#child.once("error", (error) => this.#finish(startProblem(launch.interpreter, error)));
    this.#child.once("exit", (code, signal) => this.#exited(code, signal));
    const stream = this.#child.stdio[3];
    this.#socket = stream instanceof Socket ? stream : undefined;
    this.#readSocket();
    this.#readOutput(launch);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** True until the process has ended. */
  get isAlive(): boolean {
    return !this.#isOver;
  }

  /** Resolves when the process has ended and the listener knows. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** How the process may hand big data over. `probeAddress`: where it keeps something for the server to find. */
  handover(probeAddress: bigint): Handover {
    return { mayLend: this.#lent.probe(probeAddress), answerBytes: this.#answers.byteLength };
  }

  /** Hands a message to the socket. False: much is waiting, `drained()` says when it has left. */
  send(frame: Frame): boolean {
    const socket = this.#socket;
    if (socket === undefined || this.#isOver || !socket.writable) return true;
    socket.cork();
    let hasRoom = true;
    const returned = this.#answers.takeReturned();
    if (returned.length > 0) for (const part of encodeReturned(returned)) socket.write(part);
    for (const part of frame) hasRoom = socket.write(part);
    socket.uncork();
    return hasRoom;
  }

  /** Resolves when the socket has room again, or the process has ended. */
  async drained(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || !socket.writableNeedDrain) return;
    const drain = new Promise<void>((resolve) => {
      socket.once("drain", resolve);
    });
    await Promise.race([drain, this.#ended]);
  }

  /** `isAlone`: the message has one request, and an answer that tells when it has ended. */
  placer(isAlone: boolean): DataPlacer {
    return isAlone && this.mayOpenHere ? this.#placerOfOne : this.blocks;
  }

  /** Ends the process at once. `cause` is what the listener will hear. */
  kill(cause: string): void {
    if (this.#isOver) return;
    this.#cause ??= cause;
    this.#killGroup();
  }

  #readSocket(): void {
    const source: DataSource = {
      copy: (loan, address, byteLength) => this.#lent.copy(loan, address, byteLength),
      view: (offset, capacity, byteLength) => this.#answers.take(offset, capacity, byteLength),
    };
    const assembler = new FrameAssembler((body) => {
      if (this.#isOver || this.#cause !== undefined) return;
      const reader = new FrameReader(body, source);
      this.#listener.message(reader.u8(), reader);
      const copied = this.#lent.takeCopied();
      if (copied.length > 0) this.send(encodeCopied(copied));
    });
    this.#socket?.on("data", (chunk: Buffer) => {
      try {
        assembler.push(chunk);
      } catch (error) {
        this.kill(`It sent a message that the server cannot read: ${String(error)}`);
      }
    });
    // A broken pipe: the exit of the process says more.
    this.#socket?.on("error", () => this.#socket?.destroy());
  }

  #readOutput({ name, log }: StubLaunch): void {
    const out = new LineSplitter((line) => log.info("python", `${name}: ${line}`));
    const err = new LineSplitter((line) => log.warn("python", `${name}: ${line}`));
    this.#child.stdout?.on("data", (chunk: Buffer) => out.push(chunk)).on("end", () => out.end());
    this.#child.stderr?.on("data", (chunk: Buffer) => err.push(chunk)).on("end", () => err.end());
  }

  #exited(code: number | null, signal: string | null): void {
    this.#killGroup();
    this.#lent.forget();
    this.watchdog?.[Symbol.dispose]();
    const cause = this.#cause ?? (signal === null ? `It exited with code ${code}` : `It was ended by ${signal}`);
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) {
      this.#finish(cause);
      return;
    }
    const timer = setTimeout(() => this.#finish(cause), DRAIN_MS);
    socket.once("close", () => {
      clearTimeout(timer);
      this.#finish(cause);
    });
  }

  #finish(cause: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket?.destroy();
    this.blocks[Symbol.dispose]();
    this.#answers[Symbol.dispose]();
    this.#listener.ended(cause);
    this.#markEnded();
  }

  #killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      // ESRCH: nobody of the group is left. EPERM: what is left has changed its user and is not ours to end.
      if (code !== "ESRCH" && code !== "EPERM") throw error;
    }
  }
}

function startProblem(interpreter: string, error: Error): string {
  return (
    `The Python interpreter '${interpreter}' cannot be started (${error.message}). ` +
    "Install Python 3 or name one with --backend-config=python,interpreter=<path> or the environment variable NEREID_PYTHON"
  );
}
