/**
 * One process of a model: spawned with an argument vector, spoken to over an inherited socket, ended with everything it
 * started. Delivers messages and the one end; knows neither requests nor restarts, nor which program it is.
 */

import { type ProcessEnd, SupervisedProcess } from "../../child-process/supervised-process.ts";
import type { Logger } from "../../observe/log.ts";
import { AnswerMemory } from "./answer-memory.ts";
import { locateInClient } from "./client-region.ts";
import { FrameAssembler } from "./frame-assembler.ts";
import { LeasedMemory } from "./leased-memory.ts";
import { encodeCopied, encodeReturned, type Frame, type Handover } from "./messages.ts";
import type { Environment } from "./settings.ts";
import { SharedBlocks } from "./shared-blocks.ts";
import { Watchdog } from "./watchdog.ts";
import { type DataPlacer, type DataSource, FrameReader } from "./wire-codec.ts";

export interface StubLaunch {
  readonly command: string;
  readonly args: readonly string[];
  /** Shown in the log. */
  readonly name: string;
  readonly folder: string;
  readonly environment: Environment;
  readonly log: Logger;
  /** Location of the lines that the process prints. */
  readonly logLocation: string;
  /** Sentences about a program that cannot be started. */
  readonly startProblem: (error: Error) => string;
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
  readonly #leased: LeasedMemory;
  readonly watchdog: Watchdog | undefined;
  /** The system lets the process open what the server has open. Known from its greeting on. */
  mayOpenHere = false;
  readonly #placerOfOne: DataPlacer = { place: (data) => this.blocks.place(data), locate: locateInClient };
  readonly #process: SupervisedProcess;
  readonly #listener: StubListener;

  constructor(launch: StubLaunch, listener: StubListener) {
    this.#listener = listener;
    this.blocks = new SharedBlocks(`nereid-${launch.name}`);
    this.#answers = new AnswerMemory(`nereid-${launch.name}-answers`, () => this.send([]));
    const { name, log, logLocation, command, args } = launch;
    const assembler = this.#assembler();
    const options = {
      command,
      args,
      folder: launch.folder,
      environment: launch.environment,
      channels: ["pipe", this.blocks.descriptor ?? "ignore", this.#answers.descriptor ?? "ignore"],
      ownsGroup: true,
    } as const;
    this.#process = new SupervisedProcess(options, {
      output: (line, isError) => log[isError ? "warn" : "info"](logLocation, `${name}: ${line}`),
      ended: (end) => this.#finish(causeOf(end, launch.startProblem)),
      data: (chunk) => {
        try {
          assembler.push(chunk);
        } catch (error) {
          this.kill(`It sent a message that the server cannot read: ${String(error)}`);
        }
      },
    });
    const { pid } = this.#process;
    this.#leased = new LeasedMemory(pid);
    this.watchdog = pid === undefined ? undefined : new Watchdog(pid, (cause) => this.kill(cause));
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** True until the process has ended. */
  get isAlive(): boolean {
    return !this.#process.isOver;
  }

  /** Resolves when the process has ended and the listener knows. */
  get ended(): Promise<void> {
    return this.#process.ended;
  }

  /** How the process may hand big data over. `probeAddress`: where it keeps something for the server to find. */
  handover(probeAddress: bigint): Handover {
    return { mayLease: this.#leased.probe(probeAddress), answerBytes: this.answerBytes };
  }

  /** Size of the memory file for answers that the process has inherited; 0 = none. */
  get answerBytes(): number {
    return this.#answers.byteLength;
  }

  /** Hands a message to the socket. False: much is waiting, `drained()` says when it has left. */
  send(frame: Frame): boolean {
    const { socket, isOver } = this.#process;
    if (socket === undefined || isOver || !socket.writable) return true;
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
    const { socket, ended } = this.#process;
    if (socket === undefined || !socket.writableNeedDrain) return;
    const drain = new Promise<void>((resolve) => {
      socket.once("drain", resolve);
    });
    await Promise.race([drain, ended]);
  }

  /** `isAlone`: the message has one request, and an answer that tells when it has ended. */
  placer(isAlone: boolean): DataPlacer {
    return isAlone && this.mayOpenHere ? this.#placerOfOne : this.blocks;
  }

  /** Ends the process at once. `cause` is what the listener will hear. */
  kill(cause: string): void {
    this.#process.kill(cause);
  }

  #assembler(): FrameAssembler {
    const source: DataSource = {
      copy: (lease, address, byteLength) => this.#leased.copy(lease, address, byteLength),
      view: (offset, capacity, byteLength) => this.#answers.take(offset, capacity, byteLength),
    };
    return new FrameAssembler((body) => {
      if (this.#process.isOver || this.#process.isKilled) return;
      const reader = new FrameReader(body, source);
      this.#listener.message(reader.u8(), reader);
      const copied = this.#leased.takeCopied();
      if (copied.length > 0) this.send(encodeCopied(copied));
    });
  }

  #finish(cause: string): void {
    this.#leased.forget();
    this.watchdog?.[Symbol.dispose]();
    this.blocks[Symbol.dispose]();
    this.#answers[Symbol.dispose]();
    this.#listener.ended(cause);
  }
}

function causeOf(
  { code, signal, startError, killedBecause }: ProcessEnd,
  startProblem: StubLaunch["startProblem"],
): string {
  if (killedBecause !== undefined) return killedBecause;
  if (startError !== undefined) return startProblem(startError);
  return signal === undefined ? `It exited with code ${code}` : `It was ended by ${signal}`;
}
