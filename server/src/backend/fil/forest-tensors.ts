/** The tensors of a tree model by the names of NVIDIA's FIL backend, and their check against a model. Pure. */
import type { ModelConfig, ModelOutput } from "../../core/model-config.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { ForestInfo, ForestOutput } from "../../native/trees/forest.ts";
import type { ModelDescription } from "../backend.ts";
import { allowedWidths } from "./class-outputs.ts";
import type { FilSettings } from "./fil-settings.ts";

export const INPUT = "input__0";
export const OUTPUT = "output__0";
/** SHAP values: of each class those of all features, then the bias. */
export const CONTRIBUTIONS = "treeshap_output";

export interface PlannedOutput {
  readonly name: string;
  readonly kind: ForestOutput;
  /** Values of a row. */
  readonly width: number;
  /** Shape of a row. */
  readonly rowShape: readonly number[];
}

/** @throws ServerError naming the tensor, its expected shape and the configured one */
export function planOutputs(config: ModelConfig, settings: FilSettings, model: ForestInfo): readonly PlannedOutput[] {
  expectInput(config, model);
  return config.output.map((output) => {
    if (output.name === OUTPUT) return planOutput(config, output, "values", allowedWidths({ ...settings, ...model }));
    if (output.name !== CONTRIBUTIONS) {
      throw wrong(config, `expected outputs '${OUTPUT}' and '${CONTRIBUTIONS}', got '${output.name}'`);
    }
    return planOutput(config, output, "contributions", [model.numOutputs * (model.numFeatures + 1)]);
  });
}

/** The description for auto-complete. */
export function describeForest(settings: FilSettings, model: ForestInfo): ModelDescription {
  const [width = 1] = allowedWidths({ ...settings, ...model });
  return {
    inputs: [{ name: INPUT, dataType: "TYPE_FP32", dims: [-1, model.numFeatures] }],
    outputs: [{ name: OUTPUT, dataType: "TYPE_FP32", dims: [-1, width] }],
    canBatch: true,
  };
}

function expectInput(config: ModelConfig, { numFeatures }: ForestInfo): void {
  const [input] = config.input;
  if (config.input.length !== 1 || input === undefined || input.name !== INPUT) {
    const names = config.input.map(({ name }) => `'${name}'`).join(", ");
    throw wrong(config, `expected one input '${INPUT}', got ${names === "" ? "none" : names}`);
  }
  if (input.data_type !== "TYPE_FP32") throw wrong(config, `expected '${INPUT}' of TYPE_FP32, got ${input.data_type}`);
  const dims = input.reshape?.shape ?? input.dims;
  const [columns] = dims.slice(-1);
  const expectedRank = config.max_batch_size > 0 ? 1 : 2;
  if (dims.length === expectedRank && (columns === numFeatures || columns === -1)) return;
  const expected = expectedRank === 1 ? `[ ${numFeatures} ]` : `[ -1, ${numFeatures} ]`;
  throw wrong(
    config,
    `expected '${INPUT}' with dims ${expected}, the features of the model, got [ ${dims.join(", ")} ]`,
  );
}

function planOutput(
  config: ModelConfig,
  { name, data_type, dims, reshape }: ModelOutput,
  kind: ForestOutput,
  widths: readonly number[],
): PlannedOutput {
  if (data_type !== "TYPE_FP32") throw wrong(config, `expected '${name}' of TYPE_FP32, got ${data_type}`);
  const given = reshape?.shape ?? dims;
  const row = config.max_batch_size > 0 ? given : given.slice(1);
  const known = row.filter((dim) => dim !== -1).reduce((product, dim) => product * dim, 1);
  const isOpen = row.includes(-1);
  const width = widths.find((candidate) => (isOpen ? candidate % known === 0 : candidate === known));
  if (width === undefined || row.filter((dim) => dim === -1).length > 1) {
    const expected = widths.map((candidate) => `[ ${candidate} ]`).join(" or ");
    throw wrong(config, `expected '${name}' with dims ${expected}, got [ ${given.join(", ")} ]`);
  }
  return { name, kind, width, rowShape: row.map((dim) => (dim === -1 ? width / known : dim)) };
}

function wrong({ name }: ModelConfig, text: string): Error {
  return invalidArgument(`model '${name}': ${text}`);
}
