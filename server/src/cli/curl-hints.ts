/** One ready-to-paste request for each served model, printed by `nereid serve`. Pure. */
import type { RepositoryOptions } from "../config/flags/server-options.ts";
import type { ModelServer, ServedModel, TensorMetadata } from "../core/model-server.ts";

type Repository = Pick<RepositoryOptions, "controlMode" | "paths">;
type Endpoints = ReadonlyMap<string, { readonly address: string; readonly port: number }>;

/** Above this a tensor does not fit on a line that anybody would paste. */
const MAX_JSON_ELEMENTS = 64;
const BYTES_OF: Readonly<Record<string, number>> = {
  FP16: 2,
  BF16: 2,
  INT16: 2,
  UINT16: 2,
  BOOL: 1,
  INT8: 1,
  UINT8: 1,
  FP64: 8,
  INT64: 8,
  UINT64: 8,
};
const DEFAULT_BYTES = 4;
/** Types whose tensors JSON does not carry. */
const BINARY_ONLY: ReadonlySet<string> = new Set(["FP16", "BF16"]);
/** A red pixel, for inputs that by their name take files of images. */
const IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";

/** Requests to paste. A repository without models gets the likely reason instead, unless models are to come later. */
export function curlHints(server: ModelServer, endpoints: Endpoints, repository: Repository): string {
  const lines: string[] = [];
  for (const [name, { address, port }] of endpoints)
    lines.push(`${name.padEnd(8)} ${urlOf(address, port, name === "grpc")}`);
  const http = endpoints.get("http");
  if (http !== undefined) {
    const base = urlOf(http.address, http.port, false);
    const ready = server.index(true).map(({ name, version = "" }) => server.model(name, version));
    for (const model of ready) lines.push("", `# ${model.name}`, hintOf(base, model));
  }
  if (server.index(false).length === 0 && repository.controlMode === "none") {
    lines.push("", noModels(repository.paths));
  }
  return `\n${lines.join("\n")}\n\n`;
}

function noModels(paths: readonly string[]): string {
  const from = paths.join(", ");
  return `No model is served from ${from}: expected a folder for each model, e.g. name/config.pbtxt and name/1/model.onnx`;
}

/** The address for clients on this machine. */
export function urlOf(address: string, port: number, isGrpc: boolean): string {
  const host = address === "0.0.0.0" || address === "::" ? "localhost" : address;
  return isGrpc ? `${host}:${port}` : `http://${host}:${port}`;
}

function hintOf(base: string, model: ServedModel): string {
  const url = `${base}/v2/models/${model.name}`;
  const inputs = [...model.inputs.values()].filter(({ name }) => !isOptional(model, name));
  if (inputs.some(({ name, datatype }) => name === "text_input" && datatype === "BYTES")) {
    return `curl -X POST ${url}/generate -d '${generateBody(inputs, lengthInput(model))}'`;
  }
  const [only] = inputs;
  if (inputs.length === 1 && only !== undefined && only.datatype !== "BYTES" && elements(only) > MAX_JSON_ELEMENTS) {
    return bytesHint(url, only, model.inputs.size === 1);
  }
  if (model.inputs.has("input_ids") && model.inputs.has("request_output_len")) {
    const body = { input_ids: [1, 2, 3], input_lengths: 3, request_output_len: 8 }; // the ids are optional, and still needed
    return `curl -N -X POST ${url}/generate_stream -d '${JSON.stringify(body)}'`;
  }
  if (model.decoupled) {
    const body = Object.fromEntries(inputs.map((input) => [input.name, scalarOrList(sample(input))]));
    return `curl -N -X POST ${url}/generate_stream -d '${JSON.stringify(body)}'`;
  }
  const tensors = inputs.map((input) => JSON.stringify({ ...tensor(input), data: sample(input) }));
  const isBinary = [...model.outputs.values()].some(({ datatype }) => BINARY_ONLY.has(datatype));
  const [parameters, file] = isBinary ? [', "parameters": {"binary_data_output": true}', " -o answer.bin"] : ["", ""];
  return `curl -X POST ${url}/infer -d '{"inputs": [${tensors.join(", ")}]${parameters}}'${file}`;
}

/** Bytes alone where the model has one input, as Triton wants it; else behind a description. */
function bytesHint(url: string, input: TensorMetadata, isAlone: boolean): string {
  const bytes = elements(input) * (BYTES_OF[input.datatype] ?? DEFAULT_BYTES);
  const described = { ...tensor(input), parameters: { binary_data_size: bytes } };
  const head = isAlone ? "" : JSON.stringify({ inputs: [described], parameters: { binary_data_output: true } });
  // "????" is 0.75 as a float: vectors without a length are refused by models that compare them.
  const filler = /FP|BF/.test(input.datatype) ? " | tr '\\0' '?'" : "";
  const data = `head -c ${bytes} /dev/zero${filler}`;
  const sent = isAlone ? data : `{ printf %s '${head}'; ${data}; }`;
  return `${sent} | curl -X POST ${url}/infer -H 'Inference-Header-Content-Length: ${head.length}' --data-binary @- -o answer.bin`;
}

/** The question and the length, and whatever else the model insists on. */
function generateBody(inputs: readonly TensorMetadata[], length: string): string {
  const known = ["text_input", length];
  const others = inputs.filter(({ name }) => !known.includes(name));
  const members = others.map(
    (input) => `, ${JSON.stringify(input.name)}: ${JSON.stringify(scalarOrList(sample(input)))}`,
  );
  return `{"text_input": "What is machine learning?", "${length}": 20${members.join("")}}`;
}

/** Models for TensorRT-LLM's LLM API have a prefix. */
function lengthInput({ inputs }: ServedModel): string {
  return inputs.has("sampling_param_max_tokens") ? "sampling_param_max_tokens" : "max_tokens";
}

function isOptional(model: ServedModel, name: string): boolean {
  return model.config.input.find((input) => input.name === name)?.optional === true;
}

function tensor({ name, datatype, shape }: TensorMetadata): { name: string; datatype: string; shape: number[] } {
  return { name, datatype, shape: shape.map((dim) => Math.max(dim, 1)) };
}

function elements({ shape }: TensorMetadata): number {
  return shape.reduce((product, dim) => product * Math.max(dim, 1), 1);
}

function sample(input: TensorMetadata): unknown[] {
  const values = Array.from({ length: elements(input) }, (_, i) => i + 1);
  if (input.datatype === "BYTES" && /^images?$/i.test(input.name)) return values.map(() => IMAGE);
  if (input.datatype === "BYTES") return values.map((value) => `text ${value}`);
  return input.datatype === "BOOL" ? values.map((value) => value % 2 === 0) : values;
}

/** The generate extension takes a scalar for a tensor of one element. */
function scalarOrList(values: readonly unknown[]): unknown {
  return values.length === 1 ? values[0] : values;
}
