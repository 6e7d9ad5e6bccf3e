/**
 * One life of an engine host: a child process and the socket to it. It knows how to start, talk and kill; what to do
 * when the process dies is its owner's business.
 */
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import type { Duplex, Readable } from "node:stream";
import { type FrameReader, FrameSplitter } from "./frame.ts";

/** File descriptor of the host's end of the socket. */
export const HOST_SOCKET_FD = 3;

export interface HostProcessEvents {
  onFrame(frame: FrameReader): void;
  /** A line that the host wrote to its standard output or error. */
  onOutput(line: string, isError: boolean): void;
  /** Called once. `how` reads like "signal SIGSEGV" or "exit code 1". */
  onExit(how: string): void;
}

export interface HostProcessOptions {
  /** The program of the host role. */
  readonly entry: string;
  readonly env?: Readonly<Record<string, string>>;
}

export class HostProcess {
  readonly #child: ChildProcess;
  readonly #socket: Duplex;
  readonly #exited: Promise<void>;
  #outgoing: Uint8Array[] = [];
  #isOver = false;

  constructor(options: HostProcessOptions, events: HostProcessEvents) {
    this.#child = spawn(process.execPath, [...hostArguments(process.execArgv), options.entry], {
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      env: { ...process.env, ...options.env },
    });
    this.#socket = this.#child.stdio[HOST_SOCKET_FD] as unknown as Duplex; // "pipe" gives both directions
    const splitter = new FrameSplitter(events.onFrame);
    this.#socket.on("data", (bytes: Buffer) => this.#receive(splitter, bytes, events));
    this.#socket.on("error", (error) => events.onOutput(`the socket to the host failed: ${error.message}`, true));
    const { stdout, stderr } = this.#child;
    if (stdout !== null) readLines(stdout, (line) => events.onOutput(line, false));
    if (stderr !== null) readLines(stderr, (line) => events.onOutput(line, true));
    this.#exited = new Promise((resolve) => {
      const end = (how: string): void => {
        if (this.#isOver) return;
        this.#isOver = true;
        resolve();
        events.onExit(how);
      };
      this.#child.once("error", (error) => end(`it could not be started: ${error.message}`));
      this.#child.once("close", (code, signal) => end(signal === null ? `exit code ${code}` : `signal ${signal}`));
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Frames sent in the same turn of the event loop leave in one write. */
  send(frame: Uint8Array): void {
    this.#outgoing.push(frame);
    if (this.#outgoing.length > 1) return;
    setImmediate(() => {
      const bytes = this.#outgoing.length === 1 ? this.#outgoing[0] : Buffer.concat(this.#outgoing);
      this.#outgoing = [];
      if (this.#socket.writable && bytes !== undefined) this.#socket.write(bytes);
    });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Waits for the end, killing the host when it takes longer. */
  async ended(withinMs: number): Promise<void> {
    const timer = setTimeout(() => this.kill(), withinMs);
    await this.#exited;
    clearTimeout(timer);
  }

  #receive(splitter: FrameSplitter, bytes: Buffer, events: HostProcessEvents): void {
    try {
      splitter.push(bytes);
    } catch (error) {
      events.onOutput(`unreadable frame from the host, killing it: ${String(error)}`, true);
      this.kill();
    }
  }
}

/** Flags that decide how this program's files are found and compiled. */
const LOADER_FLAG = /^(--import|--require|-r|--conditions|-C|--loader|--experimental-loader)(=|$)/;
const OTHER_FLAGS = /^--(max-|stack-size|enable-source-maps|experimental-strip-types|no-warnings|disable-warning)/;

/** The flags of this process that a host needs: none that make it a debugger, a test run or a one-liner. */
export function hostArguments(execArgv: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const flag = execArgv[i] ?? "";
    const loader = LOADER_FLAG.exec(flag);
    if (loader === null && !OTHER_FLAGS.test(flag)) continue;
    kept.push(flag);
    if (loader !== null && loader[2] !== "=") kept.push(execArgv[++i] ?? ""); // its value is the next one
  }
  return kept;
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on("line", onLine);
}
