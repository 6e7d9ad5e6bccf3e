/** One contestant of the bench: a process that loads the model and answers jobs. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Job, Setup } from "./worker-protocol.ts";

interface Answer {
  readonly times?: readonly number[];
  readonly error?: string;
}

export class Contestant {
  readonly name: string;
  readonly #process: ChildProcess;

  constructor(name: string, worker: string) {
    this.name = name;
    this.#process = fork(fileURLToPath(new URL(worker, import.meta.url)), {
      execArgv: ["--conditions=nereid-source", "--import", "tsx", "--no-concurrent-array-buffer-sweeping"],
    });
  }

  async ask(message: Setup | Job): Promise<readonly number[]> {
    this.#process.send(message);
    const [answer] = (await Promise.race([
      once(this.#process, "message"),
      once(this.#process, "exit").then(([code]) => [{ error: `it ended with ${code}` }]),
    ])) as [Answer];
    if (answer.times === undefined) throw new Error(`${this.name}: ${answer.error}`);
    return answer.times;
  }

  async close(): Promise<void> {
    const exited = once(this.#process, "exit");
    this.#process.disconnect();
    await exited;
  }
}
