/** One process that hosts a repository agent's library: numbered calls and their answers. The counterpart is serve_agent.cc. */
import process from "node:process";
import { endText, SupervisedProcess } from "../../child-process/supervised-process.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { ERROR_CODES, LOG } from "../python/messages.ts";
import type { Environment } from "../python/settings.ts";
import { FrameReader, FrameWriter } from "../python/wire-codec.ts";
import { logged } from "./take-message.ts";

const ANSWER = 90;
const LENGTH_BYTES = 4;
/** Answers are a path and a text. */
const MAX_MESSAGE_BYTES = 1 << 20;

export interface AgentProcessOptions {
  readonly program: string;
  readonly name: string;
  readonly environment: Environment;
  readonly log: Logger;
}

interface Call {
  readonly resolve: (folder: string) => void;
  readonly reject: (error: ServerError) => void;
}

export class AgentProcess {
  readonly #options: AgentProcessOptions;
  readonly #child: SupervisedProcess;
  readonly #calls = new Map<number, Call>();
  #received: Buffer = Buffer.alloc(0);
  #nextNumber = 1;
  #end: string | undefined;

  constructor(options: AgentProcessOptions) {
    const { program, name, environment, log } = options;
    this.#options = options;
    const launch = {
      command: program,
      args: ["agent"],
      folder: process.cwd(),
      environment,
      channels: ["pipe"] as const,
    };
    this.#child = new SupervisedProcess(launch, {
      output: (line) => log.info("agent_host", `${name}: ${line}`),
      data: (bytes) => this.#take(bytes),
      ended: (end) => this.#ended(endText(end)),
    });
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** `fill` adds the fields behind the number. @throws ServerError of the agent, or internal when the process dies */
  call(kind: number, fill: (writer: FrameWriter) => void): Promise<string> {
    const { socket } = this.#child;
    if (this.#end !== undefined || socket === undefined) return Promise.reject(this.#lost());
    const number = this.#nextNumber++;
    const writer = new FrameWriter(kind);
    writer.u32(number);
    fill(writer);
    for (const part of writer.finish()) socket.write(part);
    return new Promise((resolve, reject) => this.#calls.set(number, { resolve, reject }));
  }

  /** Lets the agent finalize itself and end. */
  close(): void {
    this.#child.socket?.end();
  }

  #take(bytes: Buffer): void {
    this.#received = Buffer.concat([this.#received, bytes]);
    while (this.#received.length >= LENGTH_BYTES) {
      const length = this.#received.readUInt32LE(0);
      if (length > MAX_MESSAGE_BYTES) this.#child.kill(`It sent a message of ${length} bytes`);
      if (length > MAX_MESSAGE_BYTES || this.#received.length < LENGTH_BYTES + length) return;
      const body = this.#received.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
      this.#received = this.#received.subarray(LENGTH_BYTES + length);
      this.#message(new FrameReader(body));
    }
  }

  #message(reader: FrameReader): void {
    try {
      const kind = reader.u8();
      if (kind === LOG) logged(reader, this.#options.log);
      else if (kind === ANSWER) this.#answered(reader);
      else throw new RangeError(`unknown message kind ${kind}`);
    } catch (error) {
      this.#child.kill(
        `It sent a message that cannot be read (${error instanceof Error ? error.message : String(error)})`,
      );
    }
  }

  #answered(reader: FrameReader): void {
    const number = reader.u32();
    const code = reader.u8();
    const [text, folder] = [reader.string(), reader.string()];
    const call = this.#calls.get(number);
    this.#calls.delete(number);
    if (code === 0) call?.resolve(folder);
    else call?.reject(new ServerError(ERROR_CODES[code - 1] ?? "unknown", text));
  }

  #ended(text: string): void {
    this.#end = text;
    for (const call of this.#calls.values()) call.reject(this.#lost());
    this.#calls.clear();
  }

  #lost(): ServerError {
    return new ServerError(
      "internal",
      `the process of repository agent '${this.#options.name}' ended: ${this.#end ?? ""}`,
    );
  }
}
