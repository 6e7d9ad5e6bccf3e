/** One life of an engine host: a child process and the framed socket to it. Its owner decides what follows its death. */
import process from "node:process";
import { inheritedFlags } from "../../child-process/inherited-flags.ts";
import { endText, SupervisedProcess } from "../../child-process/supervised-process.ts";
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
  readonly #process: SupervisedProcess;
  #outgoing: Uint8Array[] = [];

  constructor({ entry, env }: HostProcessOptions, { onFrame, onOutput, onExit }: HostProcessEvents) {
    const splitter = new FrameSplitter(onFrame);
    const launch = {
      command: process.execPath,
      args: [...inheritedFlags(process.execArgv), entry],
      environment: { ...process.env, ...env },
      channels: ["pipe"],
    } as const;
    this.#process = new SupervisedProcess(launch, {
      output: onOutput,
      ended: (end) => onExit(endText(end)),
      data: (bytes) => {
        try {
          splitter.push(bytes);
        } catch (error) {
          onOutput(`unreadable frame from the host, killing it: ${String(error)}`, true);
          this.kill();
        }
      },
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Frames sent in the same turn of the event loop leave in one write. */
  send(frame: Uint8Array): void {
    this.#outgoing.push(frame);
    if (this.#outgoing.length > 1) return;
    setImmediate(() => {
      const bytes = this.#outgoing.length === 1 ? this.#outgoing[0] : Buffer.concat(this.#outgoing);
      this.#outgoing = [];
      const { socket } = this.#process;
      if (socket?.writable === true && bytes !== undefined) socket.write(bytes);
    });
  }

  kill(): void {
    this.#process.kill();
  }

  /** Waits for the end, killing the host when it takes longer. */
  ended(withinMs: number): Promise<void> {
    return this.#process.endedWithin(withinMs);
  }
}
