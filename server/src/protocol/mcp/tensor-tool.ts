/** A model of tensors as a tool: its inputs are the arguments, its outputs the result. Source: KServe V2, "Inference". */
import type { InferRequest, TokenCounter } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import type { ServedModel, TensorMetadata } from "../../core/model-server.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { TextInferRequest } from "../../text-model/text-infer-request.ts";
import type { JsonSchema } from "../api/schema.ts";
import { meteredModel } from "../metered-infer.ts";
import type { McpTool, McpToolCall, McpToolResult } from "./mcp-endpoint.ts";
import { readTensor } from "./read-tensor.ts";
import { tensorSchema, tensorText } from "./tensor-schema.ts";
import { type ToolRun, toolResult } from "./tool-call.ts";
import { TensorWriter } from "./write-tensor.ts";

/** The answers of a model that gives any number of them. */
const RESPONSES = "responses";

export function tensorToolSchemas(served: ServedModel): Pick<McpTool, "description" | "inputSchema" | "outputSchema"> {
  const inputs = [...served.inputs.values()];
  const outputs = [...served.outputs.values()];
  const required = inputs.filter(({ name }) => !isOptional(served, name)).map(({ name }) => name);
  // A model may leave out any of its outputs.
  const one = objectOf(outputs, []);
  const many = { type: "array", items: one };
  const texts = (tensors: readonly TensorMetadata[]): string => tensors.map(tensorText).join("; ");
  return {
    description: `Runs the model '${served.name}'. Inputs: ${texts(inputs)}. Outputs: ${texts(outputs)}.`,
    inputSchema: { ...objectOf(inputs, required), additionalProperties: false },
    outputSchema: served.decoupled ? { type: "object", properties: { [RESPONSES]: many }, required: [RESPONSES] } : one,
  };
}

function objectOf(tensors: readonly TensorMetadata[], required: readonly string[]): JsonSchema {
  const properties = Object.fromEntries(tensors.map((tensor) => [tensor.name, tensorSchema(tensor)]));
  return { type: "object", properties, required };
}

function isOptional({ config }: ServedModel, name: string): boolean {
  return config.input.find((input) => input.name === name)?.optional === true;
}

/** @throws ServerError of the arguments, the model, or outputs that are too large */
export async function runTensorTool(served: ServedModel, run: ToolRun): Promise<McpToolResult> {
  const { call, route } = run;
  const request = new ToolInferRequest(served, call, run);
  const writer = new TensorWriter();
  const answers: Record<string, unknown>[] = [];
  for await (const response of meteredModel(served, route.access, request.inputs).infer(request)) {
    try {
      if (response.error !== undefined) throw response.error;
      if (response.empty) continue;
      answers.push(objectFrom(response, writer));
    } finally {
      response.release?.();
    }
    if (served.decoupled) call.report?.(answers.length, undefined, JSON.stringify(answers.at(-1)));
  }
  return toolResult(served.decoupled ? { [RESPONSES]: answers } : (answers[0] ?? {}));
}

function objectFrom({ outputs }: InferResponse, writer: TensorWriter): Record<string, unknown> {
  return Object.fromEntries(outputs.map((tensor) => [tensor.name, writer.write(tensor)]));
}

class ToolInferRequest extends TextInferRequest implements InferRequest {
  readonly tokens: TokenCounter | undefined;

  constructor(served: ServedModel, call: McpToolCall, { route, facts }: ToolRun) {
    const given = Object.entries(call.arguments);
    const inputs = given.map(([name, value]) => {
      const input = served.inputs.get(name);
      const known = [...served.inputs.keys()].join(", ");
      if (input === undefined)
        throw invalidArgument(`unknown input '${name.slice(0, 100)}', expected some of ${known}`);
      return readTensor(input, value);
    });
    super({ modelName: served.name, inputs, outputs: [], priority: route.access?.priority ?? 0 }, facts);
    this.tokens = route.access;
  }
}
