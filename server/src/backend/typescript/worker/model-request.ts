/** One request as the code of a model sees it. Knows no batch. */
import type { PackedRequest } from "../messages.ts";
import type * as Api from "../model-api.ts";
import type { CallingModels } from "./calling-models.ts";
import { inputsByName, type ModelTensor } from "./model-tensors.ts";
import type { SequenceStates } from "./sequence-states.ts";

type Outputs = Readonly<Record<string, unknown>>;
type Values = Readonly<Record<string, Api.ParameterValue>>;

/** Answers that may be on their way to a client that does not take them. The server tells of them in steps of half of it. */
const WINDOW = 64;

export interface RequestParts {
  readonly packed: PackedRequest;
  readonly buffer: ArrayBuffer;
  readonly calling: CallingModels;
  readonly states: SequenceStates;
  /** Hands an answer to the client. @throws TypeError when it is none */
  readonly respond: (request: ModelRequest, outputs: Outputs) => void;
}

export class ModelRequest implements Api.Request<Readonly<Record<string, ModelTensor>>, Outputs, object> {
  readonly key: number;
  readonly id: string;
  readonly batchSize: number;
  readonly outputNames: readonly string[];
  readonly inputs: Readonly<Record<string, ModelTensor>>;
  readonly sequence: PackedRequest["sequence"] | undefined;
  readonly #parts: RequestParts;
  #state: object = {};
  #controller: AbortController | undefined;
  #isCancelled: boolean;
  #models: Api.Models | undefined;
  #parameters: Values | undefined;
  #credit = WINDOW;
  #onCredit: (() => void)[] = [];

  /** @throws Error when the state of its sequence is lost */
  constructor(parts: RequestParts) {
    const { key, id, batchSize, outputNames, inputs, sequence, isCancelled } = parts.packed;
    this.#parts = parts;
    this.key = key;
    this.id = id;
    this.batchSize = batchSize;
    this.outputNames = outputNames;
    this.inputs = inputsByName(inputs, parts.buffer);
    this.#isCancelled = isCancelled;
    this.sequence = sequence.id === 0n || sequence.id === "" ? undefined : sequence;
  }

  get parameters(): Values {
    this.#parameters ??= valuesOf(this.#parts.packed);
    return this.#parameters;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isCancelled) this.#controller.abort();
    return this.#controller.signal;
  }

  get models(): Api.Models {
    this.#models ??= this.#parts.calling.models({ key: this.key, signal: this.signal });
    return this.#models;
  }

  /** The request is over; its responses have no reader. */
  get isGone(): boolean {
    return this.#isCancelled;
  }

  get state(): object {
    return this.#state;
  }

  set state(state: object) {
    this.#state = state;
    if (this.sequence !== undefined) this.#parts.states.replace(this.sequence.id, state);
  }

  async send(outputs: Outputs): Promise<void> {
    this.#parts.respond(this, outputs);
    this.#credit -= 1;
    while (this.#credit <= 0 && !this.#isCancelled) {
      await new Promise<void>((resolve) => this.#onCredit.push(resolve));
    }
  }

  /** Its sequence goes on. @throws Error when what it kept is lost */
  enterSequence(nowMs: number): void {
    if (this.sequence === undefined) return;
    const { id, start } = this.sequence;
    const state = this.#parts.states.enter(id, start, nowMs);
    if (state === undefined) {
      const text = `the state of sequence ${id} is lost: its model was started again since; begin the sequence anew`;
      throw Object.assign(new Error(text), { code: "unavailable" });
    }
    this.#state = state;
  }

  leaveSequence(): void {
    if (this.sequence?.end === true) this.#parts.states.leave(this.sequence.id);
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#controller?.abort();
    this.#wake();
  }

  credit(count: number): void {
    this.#credit += count;
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#onCredit;
    this.#onCredit = [];
    for (const resolve of waiting) resolve();
  }
}

function valuesOf({ parameters }: PackedRequest): Values {
  const values: Record<string, Api.ParameterValue> = Object.create(null);
  for (const [name, value] of parameters) values[name] = typeof value === "object" ? value.double : value;
  return values;
}
