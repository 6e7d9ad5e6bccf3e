/**
 * `identity`: OUTPUT<n> is INPUT<n>, for any datatype and shape; zeros where an optional input is left out. Parameters of the
 * model, response parameters, traced activities and the metric are those of triton-inference-server/identity_backend.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { elementSize } from "@nereid/wire";
import type { ParameterValue } from "../../core/infer-request.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { datatypeOf } from "../../core/model-signature.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";
import type { Backend, BackendRequest, ModelSource } from "../backend.ts";
import { createTestBackend, numberParameter } from "./test-backend.ts";
import { traceActivities } from "./trace-activities.ts";

/** Bytes of the length in front of each element of BYTES. */
const LENGTH_BYTES = 4;
/** Sent with each answer, to show parameters of responses. */
const RESPONSE_PARAMETERS: ReadonlyMap<string, ParameterValue> = new Map<string, ParameterValue>([
  ["param0", "an example string parameter"],
  ["param1", 42n],
  ["param2", false],
  ["param3", { double: 123.123 }],
]);

interface IdentityOutput {
  readonly name: string;
  readonly from: string;
  /** The answer where the input is left out, without its batch dimension; undefined: the input is not optional. */
  readonly zeros: Pick<Tensor, "datatype" | "shape"> | undefined;
}

export function createIdentityBackend(): Backend {
  return createTestBackend("identity", async (source) => {
    const delaySeconds = numberParameter(source, "creation_delay_sec", 0);
    if (delaySeconds > 0) await sleep(1000 * delaySeconds);
    const { enable_custom_tracing } = source.config.parameters;
    const isTraced = enable_custom_tracing?.string_value === "true";
    const nestedSpans = numberParameter(source, "nested_span_count", 0);
    const metric = countInputBytes(source);
    const echo = createEcho(source.config, ({ name, datatype, shape, data }) => {
      metric.add(data.byteLength);
      const size = data.byteLength;
      source.log.verbose(
        1,
        "identity",
        () => `input ${name}: datatype = ${datatype}, shape = [${shape}], byte_size = ${size}`,
      );
    });
    const respond = (request: BackendRequest): void => {
      request.respond({
        outputs: echo(request),
        parameters: RESPONSE_PARAMETERS,
        final: true,
      });
    };
    return {
      execute(request) {
        const { trace } = request.request;
        if (!isTraced || trace === undefined) {
          respond(request);
          return;
        }
        return traceActivities(trace, nestedSpans).then(() => respond(request));
      },
      close: () => metric[Symbol.dispose](),
    };
  });
}

function outputsOf({ input, output }: ModelConfig): readonly IdentityOutput[] {
  return output.map(({ name }) => {
    const from = inputOf(name);
    const declared = input.find((candidate) => candidate.name === from);
    if (declared?.optional !== true) return { name, from, zeros: undefined };
    const dims = declared.reshape?.shape ?? declared.dims;
    const shape = dims.map((dim) => (dim === -1 ? 1 : dim));
    return { name, from, zeros: { datatype: datatypeOf(declared.data_type), shape } };
  });
}

/**
 * Makes the outputs of a model from the inputs of a request.
 * @param onInput sees each input that is sent back
 */
export function createEcho(
  config: ModelConfig,
  onInput: (input: Tensor) => void = () => undefined,
): (request: Pick<BackendRequest, "request" | "batchSize">) => readonly Tensor[] {
  const outputs = outputsOf(config);
  const isBatched = config.max_batch_size > 0;
  return ({ request: { inputs }, batchSize }) =>
    outputs.flatMap(({ name, from, zeros }): readonly Tensor[] => {
      const input = inputs.find((candidate) => candidate.name === from);
      const given = input ?? (zeros === undefined ? soleInput(inputs, outputs) : undefined);
      if (given === undefined) return zeros === undefined ? [] : [zeroTensor(name, zeros, isBatched, batchSize)];
      const { datatype, shape, data } = given;
      onInput(given);
      return [{ name, datatype, shape, data }];
    });
}

function zeroTensor(
  name: string,
  { datatype, shape: row }: Pick<Tensor, "datatype" | "shape">,
  isBatched: boolean,
  rows: number,
): Tensor {
  const shape = isBatched ? [rows, ...row] : row;
  const bytes = datatype === "BYTES" ? LENGTH_BYTES : elementSize(datatype);
  return { name, datatype, shape, data: new Uint8Array(bytes * elementCount(shape)) };
}

/** OUTPUT0 -> INPUT0; OUT -> IN. */
function inputOf(output: string): string {
  return output.replace(/^OUT(PUT)?/, (_, put: string | undefined) => `IN${put ?? ""}`);
}

function soleInput(inputs: readonly Tensor[], outputs: readonly unknown[]): Tensor | undefined {
  return inputs.length === 1 && outputs.length === 1 ? inputs[0] : undefined;
}

function countInputBytes({ name, version, metrics }: ModelSource): Disposable & { add(bytes: number): void } {
  let bytes = 0;
  const registered = metrics.register({
    name: "input_byte_size_counter",
    help: "Cumulative input byte size of all requests received by the model",
    type: "counter",
    collect: () => [{ labels: { model: name, version: String(version) }, value: bytes }],
  });
  return {
    add: (more) => {
      bytes += more;
    },
    [Symbol.dispose]: () => registered[Symbol.dispose](),
  };
}
