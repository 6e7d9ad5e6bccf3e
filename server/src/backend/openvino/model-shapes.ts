/** Compares an OpenVINO model's inputs and outputs with a configuration. Pure. */
import type { ConfigDataType, ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { PortInfo } from "../../native/openvino/types.ts";
import type { DescribedTensor, ModelDescription } from "../backend.ts";
import type { OpenvinoSettings } from "./openvino-settings.ts";

type Ports = readonly PortInfo[];

/** The description for auto-complete. @throws ServerError for types that have no form on the wire */
export function describePorts(name: string, inputs: Ports, outputs: Ports): ModelDescription {
  return {
    inputs: inputs.map((port) => describePort(name, port)),
    outputs: outputs.map((port) => describePort(name, port)),
    canBatch: [...inputs, ...outputs].every(({ dims }) => dims?.[0] === -1),
  };
}

type ShapeSettings = Pick<OpenvinoSettings, "keepsBatchSize" | "reshapes">;

/** Shapes that the inputs must get before the model is compiled, -1 for a free size; empty: none. */
export function plannedShapes(
  config: ModelConfig,
  settings: ShapeSettings,
  inputs: Ports,
): ReadonlyMap<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  for (const port of inputs) {
    const planned = plannedShape(config, settings, port);
    if (planned !== undefined && planned.join() !== port.dims?.join()) shapes.set(port.name, planned);
  }
  return shapes;
}

/** Undefined: any number of dimensions, as the model has it. */
function plannedShape(
  config: ModelConfig,
  { keepsBatchSize, reshapes }: ShapeSettings,
  { name, dims }: PortInfo,
): readonly number[] | undefined {
  const numBatchAxes = config.max_batch_size > 0 ? 1 : 0;
  const configured = config.input.find((input) => input.name === name);
  const row = reshapes ? (configured?.reshape?.shape ?? configured?.dims) : dims?.slice(numBatchAxes);
  if (row === undefined) return undefined;
  const batch = numBatchAxes === 0 ? [] : keepsBatchSize ? (dims?.slice(0, 1) ?? [-1]) : [-1];
  return [...batch, ...row];
}

/** @throws ServerError naming the tensor, what the model has and what is configured */
export function expectPorts(config: ModelConfig, inputs: Ports, outputs: Ports): void {
  const { name, input, output } = config;
  if (input.length !== inputs.length) {
    const text = `configuration expects ${input.length} inputs, model provides ${inputs.length}`;
    throw invalidArgument(`unable to load model '${name}', ${text}`);
  }
  for (const tensor of input) expectPort(config, "input", tensor, inputs);
  for (const tensor of output) expectPort(config, "output", tensor, outputs);
}

type Configured = ModelConfig["input"][number] | ModelConfig["output"][number];

function expectPort(config: ModelConfig, kind: "input" | "output", tensor: Configured, ports: Ports): void {
  const at = `model '${config.name}', ${kind} '${tensor.name}'`;
  const port = ports.find(({ name }) => name === tensor.name);
  if (port === undefined) {
    const names = ports.map(({ name }) => `'${name}'`).join(", ");
    throw invalidArgument(`${at}: the model has no such ${kind}, expected ${names}`);
  }
  const expectedType = typeOf(config.name, port);
  if (tensor.data_type !== expectedType) {
    throw invalidArgument(`${at}: the model has ${expectedType}, got ${tensor.data_type}`);
  }
  const row = tensor.reshape?.shape ?? tensor.dims;
  const expected = config.max_batch_size > 0 ? [-1, ...row] : row;
  const { dims } = port;
  if (dims === undefined) return;
  const fits =
    dims.length === expected.length &&
    dims.every((dim, axis) => dim === -1 || expected[axis] === -1 || dim === expected[axis]);
  if (!fits) throw invalidArgument(`${at}: the model has [${dims.join(",")}], got [${expected.join(",")}]`);
}

function describePort(model: string, port: PortInfo): DescribedTensor {
  if (port.dims === undefined) {
    throw new ServerError(
      "unsupported",
      `model '${model}': '${port.name}' has any number of dimensions, name its dims`,
    );
  }
  return { name: port.name, dataType: typeOf(model, port), dims: port.dims };
}

function typeOf(model: string, { name, datatype, typeName }: PortInfo): ConfigDataType {
  if (datatype === undefined || datatype === "BYTES") throw unsupportedType(model, name, typeName);
  return `TYPE_${datatype}`;
}

function unsupportedType(model: string, name: string, typeName: string): ServerError {
  return new ServerError(
    "unsupported",
    `model '${model}': '${name}' has OpenVINO's type ${typeName}, which no request has`,
  );
}
