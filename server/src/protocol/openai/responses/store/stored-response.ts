/** A response that is kept: as text once it is over, since the size of a text is known. Source: own design. */
import type { JsonObject } from "../../../api/schema.ts";
import type { BackgroundRun } from "./background-run.ts";
import { type FinalObject, idsOf, itemsOf } from "./final-object.ts";

export interface StoredParts {
  readonly id: string;
  /** Name of the key; "" where calls need none. */
  readonly owner: string;
  /** Items of the request, each with an id. */
  readonly input: readonly JsonObject[];
  readonly previousId: string | undefined;
}

/** The response object, or the run that makes it. */
export type ObjectSource = FinalObject | BackgroundRun;

export class StoredResponse {
  readonly id: string;
  readonly owner: string;
  readonly previousId: string | undefined;
  readonly #input: string;
  readonly #numInputBytes: number;
  readonly #inputIds: readonly string[];
  readonly #source: ObjectSource;

  constructor({ id, owner, input, previousId }: StoredParts, source: ObjectSource) {
    this.id = id;
    this.owner = owner;
    this.previousId = previousId;
    this.#input = JSON.stringify(input);
    this.#numInputBytes = Buffer.byteLength(this.#input);
    this.#inputIds = idsOf(input);
    this.#source = source;
  }

  /** Undefined: it was made while its client waited. */
  get run(): BackgroundRun | undefined {
    return "text" in this.#source ? undefined : this.#source;
  }

  get isRunning(): boolean {
    return this.run?.isOver === false;
  }

  /** Size of its texts; grows while it runs. */
  get numBytes(): number {
    return this.#numInputBytes + this.#source.numBytes;
  }

  object(): JsonObject {
    return "text" in this.#source ? JSON.parse(this.#source.text) : this.#source.object();
  }

  input(): readonly JsonObject[] {
    return itemsOf(JSON.parse(this.#input));
  }

  output(): readonly JsonObject[] {
    return itemsOf(this.object().output);
  }

  /** Input and output. */
  items(): readonly JsonObject[] {
    return [...this.input(), ...this.output()];
  }

  /** Ids of its items; those of the output once it is over. */
  get itemIds(): readonly string[] {
    return [...this.#inputIds, ...this.#source.itemIds];
  }
}
