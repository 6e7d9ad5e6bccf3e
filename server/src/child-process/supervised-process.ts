/**
 * One life of a child process: start, output by lines, messages, one reported end. Restarts and protocols belong to its
 * owner. Every child process of the server is started here.
 */
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import type { Duplex, Readable } from "node:stream";
import { LineSplitter } from "./line-splitter.ts";

/** Data that the process sent before its death is read first, for at most this long. */
const DRAIN_MS = 200;
/** First descriptor after standard input, output and error. */
const FIRST_EXTRA_FD = 3;

/** "pipe": a socket in both directions. "ipc": messages of `process.send`. A number: a descriptor of this process. */
export type Channel = "pipe" | "ipc" | "ignore" | number;

export interface ProcessLaunch {
  readonly command: string;
  readonly args: readonly string[];
  readonly folder?: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Descriptors 3, 4, ... of the process. */
  readonly channels: readonly Channel[];
  /**
   * A process group of its own: a terminal's Ctrl-C does not reach it, and its own children end with it.
   */
  readonly ownsGroup?: boolean;
}

/** How a process ended. At most one field is set; none: it ended by itself with code 0. */
export interface ProcessEnd {
  readonly code?: number;
  readonly signal?: string;
  /** It could not be started. */
  readonly startError?: Error;
  /** The cause given to `kill`. */
  readonly killedBecause?: string;
}

export interface ProcessEvents {
  /** A line of standard output or error. Without it, output is discarded. */
  output?(line: string, isError: boolean): void;
  /** Bytes of the first "pipe" channel. Must not throw. */
  data?(bytes: Buffer): void;
  /** A message of the "ipc" channel. */
  message?(message: unknown): void;
  /** Called once, after the last output, data and message. */
  ended(end: ProcessEnd): void;
}

export class SupervisedProcess {
  readonly #child: ChildProcess;
  readonly #events: ProcessEvents;
  readonly #ownsGroup: boolean;
  readonly #ended: Promise<void>;
  /** The first "pipe" channel; undefined without one, or when the process could not be started. */
  readonly socket: Duplex | undefined;
  #markEnded: () => void = () => undefined;
  #killedBecause: string | undefined;
  #isOver = false;

  constructor(launch: ProcessLaunch, events: ProcessEvents) {
    this.#events = events;
    this.#ownsGroup = launch.ownsGroup ?? false;
    this.#ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
    const output = events.output === undefined ? "ignore" : "pipe";
    this.#child = spawn(launch.command, launch.args, {
      cwd: launch.folder,
      env: { ...launch.environment },
      stdio: ["ignore", output, output, ...launch.channels],
      serialization: "advanced",
      detached: this.#ownsGroup,
    });
    this.socket = this.#openSocket(launch.channels);
    this.#listen();
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Resolves once the owner has been told of the end. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** `failed` is called when the message did not reach the process. */
  send(message: object, failed: () => void = () => undefined): void {
    this.#child.send(message, (error) => {
      if (error !== null) failed();
    });
  }

  /** Closes the "ipc" channel, which asks a worker to end by itself. */
  disconnect(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  /** Ends the process at once, and its group if it owns one. `cause` replaces the exit status in the reported end. */
  kill(cause?: string): void {
    if (this.#isOver) return;
    this.#killedBecause ??= cause;
    this.#killAll();
  }

  /** True once `kill` was called with a cause: messages that still arrive should be ignored. */
  get isKilled(): boolean {
    return this.#killedBecause !== undefined;
  }

  /** Waits for the end; kills the process after `withinMs`. */
  async endedWithin(withinMs: number): Promise<void> {
    const timer = setTimeout(() => this.kill(), withinMs);
    await this.#ended;
    clearTimeout(timer);
  }

  #openSocket(channels: readonly Channel[]): Duplex | undefined {
    const at = channels.indexOf("pipe");
    const stream = at < 0 ? undefined : this.#child.stdio[FIRST_EXTRA_FD + at];
    return (stream ?? undefined) as Duplex | undefined; // "pipe" gives both directions
  }

  #listen(): void {
    const { stdout, stderr } = this.#child;
    const { output, data, message } = this.#events;
    if (output !== undefined) {
      if (stdout !== null) readLines(stdout, (line) => output(line, false));
      if (stderr !== null) readLines(stderr, (line) => output(line, true));
    }
    this.socket?.on("data", (bytes: Buffer) => {
      if (!this.#isOver && !this.isKilled) data?.(bytes);
    });
    // A broken pipe: the exit of the process says more.
    this.socket?.on("error", () => this.socket?.destroy());
    if (message !== undefined) this.#child.on("message", message);
    this.#child.once("error", (startError) => this.#finish({ startError }));
    this.#child.once("exit", (code, signal) => this.#exited(code, signal));
  }

  /** Waits for "close", which follows the last byte; a child of the process may hold its pipes open for longer. */
  #exited(code: number | null, signal: string | null): void {
    if (this.#ownsGroup) this.#killAll();
    const end = { ...(code === null ? {} : { code }), ...(signal === null ? {} : { signal }) };
    // After a busy spell timers run before reads: one more turn of the event loop delivers bytes that are there.
    const timer = setTimeout(() => setImmediate(() => this.#finish(end)), DRAIN_MS);
    this.#child.once("close", () => {
      clearTimeout(timer);
      this.#finish(end);
    });
  }

  #finish(end: ProcessEnd): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.socket?.destroy();
    this.#events.ended(this.#killedBecause === undefined ? end : { killedBecause: this.#killedBecause });
    this.#markEnded();
  }

  #killAll(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    if (!this.#ownsGroup) {
      this.#child.kill("SIGKILL");
      return;
    }
    try {
      process.kill(-pid, "SIGKILL");
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      // ESRCH: the group is empty. EPERM: the rest has changed its user and cannot be ended from here.
      if (code !== "ESRCH" && code !== "EPERM") throw error;
    }
  }
}

/** "exit code 7", "signal SIGSEGV", or the cause of the kill. */
export function endText({ code, signal, startError, killedBecause }: ProcessEnd): string {
  if (killedBecause !== undefined) return killedBecause;
  if (startError !== undefined) return `it could not be started: ${startError.message}`;
  return signal === undefined ? `exit code ${code}` : `signal ${signal}`;
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  const lines = new LineSplitter(onLine);
  stream.on("data", (chunk: Buffer) => lines.push(chunk)).on("end", () => lines.end());
}
