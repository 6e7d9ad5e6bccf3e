/**
 * Implicit state management: output tensors that become inputs of the sequence's next request. Source: Triton
 * documentation, "Implicit State Management". Stores them between requests; knows neither queues nor files.
 */
import { type Datatype, elementSize } from "@nereid/wire";
import { expectBytesElements } from "../../core/bytes-tensor.ts";
import type {
  ModelConfig,
  ModelSequenceBatchingInitialState,
  ModelSequenceBatchingState,
} from "../../core/model-config.ts";
import { datatypeOf } from "../../core/model-signature.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";

/** Maximum bytes of a state: no more than a request could bring. */
const MAX_STATE_BYTES: number = 2 ** 31 - 1;
const LENGTH_BYTES = 4;

export interface StateSpec {
  readonly outputName: string;
  readonly datatype: Datatype;
  /** Shape of one row; -1: dynamic. */
  readonly shape: readonly number[];
  /** The input of the first request. */
  readonly initial: Tensor;
}

/**
 * `files`: contents of the `data_file`s by input name. @throws ServerError invalid_argument when a declaration is
 * inconsistent
 */
export function stateSpecs(config: ModelConfig, files: ReadonlyMap<string, Uint8Array>): readonly StateSpec[] {
  return (config.sequence_batching?.state ?? []).map((state): StateSpec => {
    const where = `state '${state.input_name}' of model '${config.name}'`;
    if (state.use_growable_memory) throw invalidArgument(`${where}: use_growable_memory needs instances of KIND_GPU`);
    if (state.initial_state.length > 1) {
      throw invalidArgument(`${where} must have at most one initial_state, got ${state.initial_state.length}`);
    }
    const batch = config.max_batch_size > 0 ? [1] : [];
    const datatype = datatypeOf(state.data_type);
    const dims = initialDims(state, where);
    const shape = [...batch, ...dims];
    const data = initialData(datatype, shape, files.get(state.input_name), where);
    return {
      outputName: state.output_name,
      datatype,
      shape: [...batch, ...state.dims],
      initial: { name: state.input_name, datatype, shape, data },
    };
  });
}

/** The states of one sequence. */
export class SequenceState {
  readonly #specs: readonly StateSpec[];
  #current: Tensor[];

  constructor(specs: readonly StateSpec[]) {
    this.#specs = specs;
    this.#current = specs.map(({ initial }) => initial);
  }

  /** State inputs for the model. */
  get inputs(): readonly Tensor[] {
    return this.#current;
  }

  reset(): void {
    this.#current = this.#specs.map(({ initial }) => initial);
  }

  /**
   * Stores the model's state outputs; an omitted state stays as it was. @throws ServerError when a state contradicts
   * the configuration
   */
  take(outputs: readonly Tensor[]): void {
    const next = this.#specs.map((spec, i) => {
      const output = outputs.find(({ name }) => name === spec.outputName);
      const { name } = spec.initial;
      if (output === undefined) return this.#current[i] ?? spec.initial;
      expectState(output, spec);
      // The request owns that memory until its last response; the state outlives it, so copy.
      return { name, datatype: output.datatype, shape: output.shape, data: output.data.slice() };
    });
    this.#current = next;
  }
}

function expectState(output: Tensor, { outputName, datatype, shape }: StateSpec): void {
  const fits =
    output.datatype === datatype &&
    output.shape.length === shape.length &&
    shape.every((dim, axis) => dim === -1 || dim === output.shape[axis]);
  if (fits) return;
  throw new ServerError(
    "internal",
    `state '${outputName}' must be ${datatype} [${shape.join(",")}], the model put out ${output.datatype} [${output.shape.join(",")}]`,
    { reason: "BACKEND" },
  );
}

/** Dynamic dimensions are 1 unless the initial state says more. */
function initialDims(state: ModelSequenceBatchingState, where: string): readonly number[] {
  const [initial] = state.initial_state;
  if (initial === undefined) return state.dims.map((dim) => (dim === -1 ? 1 : dim));
  expectInitial(state, initial, where);
  return initial.dims;
}

function expectInitial(
  state: ModelSequenceBatchingState,
  initial: ModelSequenceBatchingInitialState,
  where: string,
): void {
  if (initial.data_type !== state.data_type) {
    throw invalidArgument(`${where}: initial_state must be ${state.data_type}, got ${initial.data_type}`);
  }
  const { dims } = state;
  const fits =
    initial.dims.length === dims.length &&
    initial.dims.every((dim, axis) => dim >= 0 && (dims[axis] === -1 || dims[axis] === dim));
  if (!fits) throw invalidArgument(`${where}: initial_state must have dims like [${dims}], got [${initial.dims}]`);
}

function initialData(
  datatype: Datatype,
  shape: readonly number[],
  file: Uint8Array | undefined,
  where: string,
): Uint8Array {
  const count = elementCount(shape);
  const size = count * (datatype === "BYTES" ? LENGTH_BYTES : elementSize(datatype));
  if (size > MAX_STATE_BYTES)
    throw invalidArgument(`${where} must have at most ${MAX_STATE_BYTES} bytes, dims need ${size}`);
  if (file === undefined) return new Uint8Array(size);
  if (datatype === "BYTES") expectBytesElements(file, count, where);
  else if (file.length !== size)
    throw invalidArgument(`${where}: data_file must have ${size} bytes, got ${file.length}`);
  return file;
}
