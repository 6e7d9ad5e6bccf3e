/**
 * A response that is made while no client waits: it is read to its end, and its events are kept for those who ask later.
 * Source: OpenAI's guide "Background mode".
 */
import { Cancellation } from "../../../../core/cancellation.ts";
import { ServerError } from "../../../../core/server-error.ts";
import type { CallFacts, TokenMeter } from "../../../../text-model/text-request.ts";
import type { RouteCall } from "../../../api/route.ts";
import type { JsonObject } from "../../../api/schema.ts";
import type { ChunkSource } from "../../open-generations.ts";
import { EventNumbers } from "../response-events.ts";
import { type RunningOptions, RunningResponse } from "../running-response.ts";
import { EventLog } from "./event-log.ts";
import { type FinalObject, finalObject } from "./final-object.ts";

/** Facts of a call that goes on without its client. It has no trace: that ends with the reply. */
export class BackgroundFacts implements CallFacts {
  readonly id: string;
  readonly arrivalMs: number;
  readonly meter: TokenMeter | undefined;
  readonly #cancellation = new Cancellation();

  constructor({ call, requestId, access }: RouteCall) {
    this.id = requestId;
    this.arrivalMs = call.arrivalMs;
    this.meter = access;
  }

  get signal(): AbortSignal {
    return this.#cancellation.signal;
  }

  get isCancelled(): boolean {
    return this.#cancellation.isCancelled;
  }

  cancel(): void {
    this.#cancellation.cancel();
  }
}

/** Memory of the request is held until it is over. */
interface Work {
  readonly response: RunningResponse;
  readonly source: ChunkSource;
}

export class BackgroundRun {
  readonly log: EventLog = new EventLog();
  readonly #facts: BackgroundFacts;
  readonly #numbers = new EventNumbers();
  #state: Work | FinalObject;

  constructor(options: RunningOptions, source: ChunkSource, facts: BackgroundFacts) {
    this.#facts = facts;
    const response = new RunningResponse(options, (type, fields) => this.log.append(this.#numbers.text(type, fields)));
    this.#state = { response, source };
  }

  get isOver(): boolean {
    return "text" in this.#state;
  }

  get numBytes(): number {
    return this.log.numBytes + ("text" in this.#state ? this.#state.numBytes : 0);
  }

  get itemIds(): readonly string[] {
    return "text" in this.#state ? this.#state.itemIds : [];
  }

  object(): JsonObject {
    return "text" in this.#state ? JSON.parse(this.#state.text) : this.#state.response.object();
  }

  /** Settles at the end, and never rejects. @param hasRoom called when it has grown and when it is over */
  async run(hasRoom: () => boolean): Promise<void> {
    if ("text" in this.#state) return;
    const { response, source } = this.#state;
    response.begin();
    try {
      await source.deliver(({ chunk }) => {
        if (this.isOver) return undefined;
        response.read(chunk);
        if (!hasRoom()) throw new ServerError("unavailable", "The server keeps too many responses");
        return undefined;
      });
      this.#finish(() => response.end());
    } catch (error) {
      this.#finish(() => response.fail(error));
      await source.return();
    }
    hasRoom();
  }

  /** Nothing happens when it is over. */
  cancel(): void {
    if ("text" in this.#state) return;
    const { response } = this.#state;
    this.#finish(() => response.cancel());
    this.#facts.cancel();
  }

  #finish(end: () => void): void {
    if ("text" in this.#state) return;
    end();
    this.#state = finalObject(this.#state.response.object());
    this.log.close();
  }
}
