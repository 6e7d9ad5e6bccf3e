/**
 * An engine host that starts before its model is known: its modules load while the server starts. The first engine without an
 * environment of its own takes it; a host that nobody took, or that ended early, is replaced by one of the engine's own.
 */
import { HostProcess, type HostProcessEvents, type HostProcessOptions } from "./host-process.ts";

/** Output before somebody listens; more of it is not kept. */
const MAX_EARLY_LINES = 100;

export class SpareHost implements Disposable {
  readonly #process: HostProcess;
  readonly #early: (readonly [line: string, isError: boolean])[] = [];
  #events: HostProcessEvents | undefined;
  #isOver = false;

  constructor(options: HostProcessOptions) {
    this.#process = new HostProcess(options, {
      onFrame: (frame) => this.#events?.onFrame(frame),
      onOutput: (line, isError) => {
        if (this.#events !== undefined) this.#events.onOutput(line, isError);
        else if (this.#early.length < MAX_EARLY_LINES) this.#early.push([line, isError]);
      },
      onExit: (how) => {
        this.#isOver = true;
        this.#events?.onExit(how);
      },
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** The caller owns the process from now on. Undefined: it has an owner, or has ended. */
  take(events: HostProcessEvents): HostProcess | undefined {
    if (this.#events !== undefined || this.#isOver) return undefined;
    this.#events = events;
    for (const [line, isError] of this.#early) events.onOutput(line, isError);
    return this.#process;
  }

  /** Ends a process that has no owner. */
  [Symbol.dispose](): void {
    if (this.#events === undefined && !this.#isOver) this.#process.kill();
  }
}
