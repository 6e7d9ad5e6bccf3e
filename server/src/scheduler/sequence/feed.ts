/** Completes the inputs of sequence executions: adds controls and states, pads empty rows. One per model version. */
import type { SequenceInfo } from "../../core/infer-request.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import type { ExecutableRequest } from "../execution.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import { SequenceControls } from "./controls.ts";
import { NullRequest, type SequencedListener, SequencedRequest } from "./sequence-request.ts";
import { SequenceState, type StateSpec, stateSpecs } from "./state.ts";

const LENGTH_BYTES = 4;

export class SequenceFeed {
  readonly controls: SequenceControls;
  readonly #states: readonly StateSpec[];
  /** Names of the inputs that the server adds. */
  readonly addedNames: ReadonlySet<string>;
  #zeros: Uint8Array = new Uint8Array(0);

  /**
   * `files`: contents of the initial state files by input name. @throws ServerError when the configuration is
   * inconsistent
   */
  constructor(config: ModelConfig, files: ReadonlyMap<string, Uint8Array>) {
    this.controls = new SequenceControls(config);
    this.#states = stateSpecs(config, files);
    this.addedNames = new Set([...this.controls.names, ...this.#states.map(({ initial }) => initial.name)]);
  }

  /** True when the states of two sequences may differ in shape. */
  get hasVariableStates(): boolean {
    return this.#states.some(({ shape }) => shape.includes(-1));
  }

  newState(): SequenceState | undefined {
    return this.#states.length === 0 ? undefined : new SequenceState(this.#states);
  }

  request(
    client: ScheduledRequest,
    flags: SequenceInfo,
    state: SequenceState | undefined,
    listener: SequencedListener,
  ): SequencedRequest {
    if (flags.start) state?.reset();
    const controls = this.controls.tensors({ ...flags, ready: true });
    return new SequencedRequest({
      client,
      flags,
      extraInputs: state === undefined ? controls : [...controls, ...state.inputs],
      outputNames: this.#outputNames(client.outputNames),
      state,
      listener,
    });
  }

  nullRequest(like: ExecutableRequest): NullRequest {
    const controls = new Map(this.controls.nullTensors().map((tensor) => [tensor.name, tensor]));
    const inputs = like.request.inputs.map((input) => controls.get(input.name) ?? this.#zeroed(input));
    return new NullRequest(like, inputs);
  }

  /** Completes a request outside any sequence, as a first and only step; given inputs stay. */
  complete(inputs: readonly Tensor[]): readonly Tensor[] {
    const given = new Set(inputs.map(({ name }) => name));
    const id = this.controls.correlation?.datatype === "BYTES" ? "warmup" : 1n;
    const controls = this.controls.tensors({ id, start: true, end: true, ready: true });
    const states = this.#states.map(({ initial }) => initial);
    return [...inputs, ...[...controls, ...states].filter(({ name }) => !given.has(name))];
  }

  #outputNames(wanted: readonly string[]): readonly string[] {
    if (this.#states.length === 0) return wanted;
    const states = this.#states.flatMap(({ outputName }) => (wanted.includes(outputName) ? [] : [outputName]));
    return [...wanted, ...states];
  }

  /** Rows share one zero buffer: backends only read their inputs. */
  #zeroed(tensor: Tensor): Tensor {
    const size = tensor.datatype === "BYTES" ? elementCount(tensor.shape) * LENGTH_BYTES : tensor.data.byteLength;
    if (this.#zeros.byteLength < size) this.#zeros = new Uint8Array(size);
    return { ...tensor, data: this.#zeros.subarray(0, size) };
  }
}
