/**
 * The backend `pooling`: the last step of a sentence encoder whose ONNX file ends at the states of its tokens. Parameters
 * `pooling` (mean, cls, max, last) and `normalize`.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import type { Backend, BackendModel, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";
import { POOLING_MODES, type PoolingMode, pool, type TokenStates } from "./pool.ts";

interface PoolingSettings {
  readonly states: string;
  readonly mask: string;
  readonly output: string;
  readonly mode: PoolingMode;
  readonly isNormalized: boolean;
}

export function createPoolingBackend(): Backend {
  return { name: "pooling", load, close: () => Promise.resolve() };
}

function load({ config }: ModelSource): Promise<BackendModel> {
  const settings = readSettings(config);
  return Promise.resolve({
    createInstance: ({ name }) => Promise.resolve(new PoolingInstance(name, settings)),
    close: () => Promise.resolve(),
  });
}

function readSettings(config: ModelConfig): PoolingSettings {
  const states = config.input.find(({ data_type }) => data_type === "TYPE_FP32");
  const mask = config.input.find(({ data_type }) => data_type === "TYPE_INT64" || data_type === "TYPE_INT32");
  const [output] = config.output;
  if (states === undefined || mask === undefined || output?.data_type !== "TYPE_FP32" || config.max_batch_size === 0) {
    const text =
      "the pooling backend expects states of TYPE_FP32 and a mask of TYPE_INT64 or TYPE_INT32, one output of TYPE_FP32, and a max_batch_size";
    throw invalidArgument(`model '${config.name}': ${text}`);
  }
  const text = (key: string, fallback: string): string =>
    (Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined) ?? fallback;
  const mode = POOLING_MODES.find((candidate) => candidate === text("pooling", "mean"));
  const normalize = text("normalize", "true");
  if (mode === undefined || !["true", "false"].includes(normalize)) {
    const expected = `'pooling' to be ${POOLING_MODES.join(", ")} and 'normalize' true or false`;
    throw invalidArgument(`model '${config.name}': expected parameters ${expected}`);
  }
  return { states: states.name, mask: mask.name, output: output.name, mode, isNormalized: normalize === "true" };
}

class PoolingInstance implements ModelInstance {
  readonly name: string;
  readonly #settings: PoolingSettings;

  constructor(name: string, settings: PoolingSettings) {
    this.name = name;
    this.#settings = settings;
  }

  execute(batch: Batch): undefined {
    batch.computeStarted();
    const answers = batch.requests.map((request) => this.#answer(request));
    batch.computeEnded();
    for (const answer of answers) answer();
  }

  isReady(): boolean {
    return true;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #answer(request: BackendRequest): () => void {
    const { output, mode, isNormalized } = this.#settings;
    try {
      const states = this.#read(request.request.inputs);
      const values = pool(states, mode, isNormalized);
      const shape = [states.numRows, states.width];
      const tensor = { name: output, datatype: "FP32", shape, data: new Uint8Array(values.buffer) } as const;
      return () => request.respond({ outputs: [tensor], final: true });
    } catch (error) {
      return () => request.fail(ServerError.from(error));
    }
  }

  #read(inputs: readonly Tensor[]): TokenStates {
    const states = inputs.find(({ name }) => name === this.#settings.states);
    const mask = inputs.find(({ name }) => name === this.#settings.mask);
    const [numRows = 0, length = 0, width = 0] = states?.shape ?? [];
    if (states === undefined || mask === undefined || elementCount(mask.shape) !== numRows * length) {
      const text = `inputs '${this.#settings.states}' of [${states?.shape.join(", ")}] and '${this.#settings.mask}' of [${mask?.shape.join(", ")}] do not go together`;
      throw invalidArgument(text);
    }
    const values = new Float32Array(Uint8Array.from(states.data).buffer); // which lies at an even address
    return { values, numRows, length, width, mask: flagsOf(mask, numRows * length) };
  }
}

/** 1 where the mask is not 0. */
function flagsOf({ data }: Tensor, count: number): Uint8Array {
  const size = count === 0 ? 1 : data.length / count;
  return Uint8Array.from({ length: count }, (_, i) =>
    data.subarray(i * size, (i + 1) * size).some((byte) => byte !== 0) ? 1 : 0,
  );
}
