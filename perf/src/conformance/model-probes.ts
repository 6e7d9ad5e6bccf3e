/** Probes of one model of a V2 server, made from its metadata (KServe V2, HTTP/REST and gRPC; Triton's binary tensor data). */
import { elementSize } from "@nereid/wire";
import { encodeInfer, type InferEncoding, type InferSpec, jsonData } from "../input/infer-encoding.ts";
import type { ModelFacts, ServerApi } from "../target/server-api.ts";
import { expectV2Error, type HttpAnswer, type HttpAsk, jsonOf } from "./http-exchange.ts";
import { expectEqual, expectThat, Failure, type Probe } from "./probe.ts";
import { needsExtension } from "./server-probes.ts";

const SPEC = "KServe V2, HTTP/REST";

export interface ProbedModel {
  readonly facts: ModelFacts;
  /** A request that the model should answer. */
  readonly spec: InferSpec;
}

interface JsonOutput {
  readonly name?: unknown;
  readonly datatype?: unknown;
  readonly shape?: unknown;
  readonly data?: unknown;
  readonly parameters?: { readonly binary_data_size?: unknown };
}

export function modelProbes(ask: HttpAsk, { facts, spec }: ProbedModel, grpc: ServerApi | undefined): readonly Probe[] {
  const group = `model ${facts.name}`;
  const path = `/v2/models/${encodeURIComponent(facts.name)}`;
  const body = inferBody(spec);
  const infer = (changes: Readonly<Record<string, unknown>>): Promise<HttpAnswer> =>
    ask(`${path}/infer`, JSON.stringify({ ...body, ...changes }));
  const refused = (name: string, changes: Readonly<Record<string, unknown>>): Probe => ({
    group,
    name,
    source: `${SPEC}: Inference, Error`,
    run: async () => expectV2Error(await infer(changes), name),
  });
  const [first] = body.inputs;
  return [
    {
      group,
      name: "ready",
      source: `${SPEC}: Model Ready`,
      run: async () => expectEqual("ready", (await ask(`${path}/ready`)).status, 200),
    },
    {
      group,
      name: "inference, JSON",
      source: `${SPEC}: Inference`,
      async run() {
        const answer = jsonOf(await infer({ id: "probe-1" }), "infer");
        expectEqual("id", answer.id, "probe-1");
        expectEqual("model_name", answer.model_name, facts.name);
        checkOutputs(answer.outputs, facts);
      },
    },
    {
      group,
      name: "inference, one output asked for",
      source: `${SPEC}: Inference, $request_output`,
      async run() {
        const name = facts.outputs.at(-1)?.name;
        const { outputs } = jsonOf(await infer({ outputs: [{ name }] }), "infer");
        const names = Array.isArray(outputs) ? (outputs as readonly JsonOutput[]).map((each) => each.name) : outputs;
        expectEqual("names of the outputs", names, [name]);
      },
    },
    {
      group,
      name: "inference, binary",
      source: "Triton: Binary Tensor Data",
      run: () => binaryProbe(ask, spec, facts),
    },
    refused("an input is missing", { inputs: body.inputs.slice(1) }),
    refused("an input has an unknown name", { inputs: [{ ...first, name: "no_such_input" }, ...body.inputs.slice(1)] }),
    refused("an input has an unknown datatype", { inputs: [{ ...first, datatype: "FP31" }, ...body.inputs.slice(1)] }),
    refused("a shape does not go with its data", {
      inputs: [{ ...first, shape: [1, 2, 3, 4, 5, 7] }, ...body.inputs.slice(1)],
    }),
    refused("an output has an unknown name", { outputs: [{ name: "no_such_output" }] }),
    {
      group,
      name: "a body that is no JSON",
      source: `${SPEC}: Inference, Error`,
      run: async () => expectV2Error(await ask(`${path}/infer`, '{"inputs":['), "infer"),
    },
    {
      group,
      name: "inference after the errors",
      source: `${SPEC}: Inference`,
      run: async () => checkOutputs(jsonOf(await infer({}), "infer").outputs, facts),
    },
    ...(grpc === undefined ? [] : [grpcMetadataProbe(grpc, facts, group)]),
  ];
}

function grpcMetadataProbe(grpc: ServerApi, facts: ModelFacts, group: string): Probe {
  const tensors = ({ inputs, outputs }: ModelFacts): unknown => ({ inputs, outputs });
  return {
    group,
    name: "metadata over gRPC are those over HTTP",
    source: "KServe V2, gRPC: Model Metadata",
    run: async () => expectEqual("metadata", tensors(await grpc.modelFacts(facts.name, "")), tensors(facts)),
  };
}

function inferBody({ inputs }: InferSpec): { readonly inputs: readonly Readonly<Record<string, unknown>>[] } {
  return {
    inputs: inputs.map((tensor) => {
      const { name, datatype, shape } = tensor;
      return { name, datatype, shape, data: jsonData(tensor) };
    }),
  };
}

/** Each output of the metadata once, with its datatype, a shape that fits, and as many values. */
function checkOutputs(outputs: unknown, facts: ModelFacts): void {
  if (!Array.isArray(outputs))
    throw new Failure(`expected the list outputs, got ${JSON.stringify(outputs)?.slice(0, 200)}`);
  const found = outputs as readonly JsonOutput[];
  expectEqual(
    "names of the outputs",
    found.map(({ name }) => name).sort(),
    facts.outputs.map(({ name }) => name).sort(),
  );
  for (const { name, datatype, shape } of facts.outputs) {
    const output = found.find((each) => each.name === name);
    expectEqual(`datatype of ${name}`, output?.datatype, datatype);
    const dims = Array.isArray(output?.shape) ? output.shape.map(Number) : [];
    const fits = dims.length === shape.length && shape.every((dim, k) => dim === -1 || dim === dims[k]);
    expectThat(fits, `shape of ${name}: expected one like [${shape.join(", ")}], got [${dims.join(", ")}]`);
    if (output?.parameters?.binary_data_size !== undefined) continue;
    const count = Array.isArray(output?.data) ? output.data.flat(Number.POSITIVE_INFINITY).length : 0;
    expectEqual(`number of values of ${name}`, count, product(dims));
  }
}

function product(dims: readonly number[]): number {
  return dims.reduce((result, dim) => result * dim, 1);
}

/** The tail has the bytes that the head announces, as many as the shapes say. */
async function binaryProbe(ask: HttpAsk, spec: InferSpec, facts: ModelFacts): Promise<void> {
  await needsExtension(ask, "binary_tensor_data");
  const encoding: InferEncoding = {
    kind: "http",
    host: "x",
    prefix: "",
    headers: [],
    isBinaryInput: true,
    isBinaryOutput: true,
  };
  const bytes = Buffer.from(encodeInfer(spec, encoding));
  const headEnd = bytes.indexOf("\r\n\r\n");
  const length = /Inference-Header-Content-Length: (\d+)/.exec(bytes.toString("latin1", 0, headEnd))?.[1] ?? "";
  const path = `/v2/models/${encodeURIComponent(facts.name)}/infer`;
  const type = { "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": length };
  const answer = await ask(path, bytes.subarray(headEnd + 4), type);
  const size = Number(answer.headers.get("inference-header-content-length") ?? answer.body.length);
  const { outputs } = jsonOf({ ...answer, body: answer.body.subarray(0, size) }, "infer");
  checkOutputs(outputs, facts);
  let announced = 0;
  for (const { name, datatype, shape, parameters } of outputs as readonly JsonOutput[]) {
    const own = Number(parameters?.binary_data_size);
    announced += own;
    const fixed = facts.outputs.find((each) => each.name === name && each.datatype !== "BYTES");
    if (fixed === undefined || fixed.datatype === "BYTES" || datatype === "BYTES") continue;
    expectEqual(
      `bytes of ${String(name)}`,
      own,
      product((shape as readonly number[]).map(Number)) * elementSize(fixed.datatype),
    );
  }
  expectEqual("bytes after the head", answer.body.length - size, announced);
}
