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

export class BackgroundRun {
  readonly log: EventLog = new EventLog();
  readonly #facts: BackgroundFacts;
  readonly #source: ChunkSource;
  readonly #numbers = new EventNumbers();
  readonly #response: RunningResponse;
  /** Once it is over. */
  #final: FinalObject | undefined;

  constructor(options: RunningOptions, source: ChunkSource, facts: BackgroundFacts) {
    this.#facts = facts;
    this.#source = source;
    this.#response = new RunningResponse(options, (type, fields) => this.log.append(this.#numbers.text(type, fields)));
  }

  get isOver(): boolean {
    return this.#final !== undefined;
  }

  get numBytes(): number {
    return this.log.numBytes + (this.#final?.text.length ?? 0);
  }

  get itemIds(): readonly string[] {
    return this.#final?.itemIds ?? [];
  }

  object(): JsonObject {
    return this.#final === undefined ? this.#response.object() : JSON.parse(this.#final.text);
  }

  /** Settles at the end, and never rejects. @param hasRoom called when it has grown and when it is over */
  async run(hasRoom: () => boolean): Promise<void> {
    this.#response.begin();
    try {
      await this.#source.deliver(({ chunk }) => {
        if (this.isOver) return undefined;
        this.#response.read(chunk);
        if (!hasRoom()) throw new ServerError("unavailable", "The server keeps too many responses");
        return undefined;
      });
      this.#finish(() => this.#response.end());
    } catch (error) {
      this.#finish(() => this.#response.fail(error));
      await this.#source.return();
    }
    hasRoom();
  }

  /** Nothing happens when it is over. */
  cancel(): void {
    this.#finish(() => this.#response.cancel());
    this.#facts.cancel();
  }

  #finish(end: () => void): void {
    if (this.isOver) return;
    end();
    this.#final = finalObject(this.#response.object());
    this.log.close();
  }
}
