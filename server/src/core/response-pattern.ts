/**
 * Recognizes the responses of a stream that differ from the one before in the data of a few outputs only, so that a
 * protocol writes the rest once. Tensors that are the same object have the same data. Source: own design.
 */
import type { InferResponse } from "./infer-response.ts";
import type { Tensor } from "./tensor.ts";

/** `learned`: like the one before it, and `changes` says where it differs. `known`: as learned. */
export type Likeness = "unlike" | "learned" | "known";

export class ResponsePattern {
  readonly #comparesShapes: boolean;
  #before: InferResponse | undefined;
  #like: InferResponse | undefined;
  #changes: readonly boolean[] = [];

  /** `comparesShapes`: outputs that change keep datatype and shape. */
  constructor(comparesShapes: boolean) {
    this.#comparesShapes = comparesShapes;
  }

  /** By number of the output: its data change. */
  get changes(): readonly boolean[] {
    return this.#changes;
  }

  compare(response: InferResponse): Likeness {
    if (this.#like !== undefined && this.#fits(this.#like, response)) return "known";
    const before = this.#before;
    this.#before = response;
    this.#like = undefined;
    if (before === undefined || !this.#isLike(before, response)) return "unlike";
    this.#changes = response.outputs.map((output, i) => output !== before.outputs[i]);
    this.#like = response;
    return "learned";
  }

  /** Forgets the learned pattern. */
  forget(): void {
    this.#before = undefined;
    this.#like = undefined;
  }

  #fits(like: InferResponse, response: InferResponse): boolean {
    if (!this.#isLike(like, response)) return false;
    const { outputs } = response;
    for (let i = 0; i < outputs.length; i++) {
      if (outputs[i] !== like.outputs[i] && this.#changes[i] !== true) return false;
    }
    return true;
  }

  /** The same members in the same order. */
  #isLike(a: InferResponse, b: InferResponse): boolean {
    const { id, modelName, modelVersion, parameters, outputs } = a;
    if (outputs.length !== b.outputs.length || parameters !== b.parameters || id !== b.id) return false;
    if (modelName !== b.modelName || modelVersion !== b.modelVersion) return false;
    if (a.final !== b.final || a.empty !== b.empty) return false;
    for (let i = 0; i < outputs.length; i++) {
      if (outputs[i] !== b.outputs[i] && !this.#isSameOutput(outputs[i], b.outputs[i])) return false;
    }
    return true;
  }

  #isSameOutput(a: Tensor | undefined, b: Tensor | undefined): boolean {
    if (a?.name !== b?.name) return false;
    return !this.#comparesShapes || (a?.datatype === b?.datatype && isSameShape(a?.shape ?? [], b?.shape ?? []));
  }
}

function isSameShape(a: readonly number[], b: readonly number[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
