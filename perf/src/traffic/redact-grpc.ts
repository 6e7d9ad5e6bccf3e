/** Takes secrets out of messages of gRPC inference (grpc_service.proto), by the rules of `redact.ts`. Pure. */
import { schema } from "@nereid/wire";
import protobuf from "protobufjs/light.js";
import { hasBodyRules, maskTensor, maskText, REDACTED, type RedactionRules } from "./redact.ts";

interface TensorMessage {
  readonly name?: string;
  readonly datatype?: string;
  parameters?: Record<string, ParameterMessage>;
  contents?: Record<string, unknown>;
}

interface ParameterMessage {
  string_param?: string;
}

interface InferMessage {
  readonly inputs?: readonly TensorMessage[];
  readonly outputs?: readonly TensorMessage[];
  readonly parameters?: Record<string, ParameterMessage>;
  readonly raw_input_contents?: readonly Uint8Array[];
  readonly raw_output_contents?: readonly Uint8Array[];
  readonly infer_response?: InferMessage;
}

export class GrpcRedactor {
  readonly #rules: RedactionRules;
  readonly #root = protobuf.Root.fromJSON(schema as protobuf.INamespace);

  constructor(rules: RedactionRules) {
    this.#rules = rules;
  }

  /** `bytes`: one message without its frame. `path`: of the call. Undefined: it is no message of the call. */
  redact(bytes: Buffer, path: string, side: "request" | "answer"): Buffer | undefined {
    if (!hasBodyRules(this.#rules)) return bytes;
    const isStream = path.endsWith("/ModelStreamInfer");
    const name =
      side === "request" ? "ModelInferRequest" : isStream ? "ModelStreamInferResponse" : "ModelInferResponse";
    const type = this.#root.lookupType(`inference.${name}`);
    try {
      const message = type.toObject(type.decode(bytes)) as InferMessage;
      this.#mask(message);
      if (message.infer_response !== undefined) this.#mask(message.infer_response);
      return Buffer.from(type.encode(type.fromObject(message)).finish());
    } catch {
      return undefined; // whatever protobufjs says: what cannot be read cannot be kept
    }
  }

  #mask(message: InferMessage): void {
    maskParameters(message.parameters, this.#rules);
    this.#maskTensors(message.inputs ?? [], message.raw_input_contents ?? []);
    this.#maskTensors(message.outputs ?? [], message.raw_output_contents ?? []);
  }

  #maskTensors(tensors: readonly TensorMessage[], raw: readonly Uint8Array[]): void {
    const { patterns } = this.#rules;
    for (const [k, { name = "", datatype = "", parameters, contents }] of tensors.entries()) {
      const isWhole = this.#rules.tensors.has(name);
      maskParameters(parameters, this.#rules);
      maskContents(contents, isWhole, patterns);
      const data = raw[k];
      if (data === undefined) continue;
      maskTensor(Buffer.from(data.buffer, data.byteOffset, data.byteLength), datatype, isWhole, patterns);
    }
  }
}

function maskParameters(
  parameters: Record<string, ParameterMessage> | undefined,
  { fields, patterns }: RedactionRules,
): void {
  for (const [name, parameter] of Object.entries(parameters ?? {})) {
    if (parameter.string_param === undefined) continue;
    parameter.string_param = fields.has(name) ? REDACTED : maskText(parameter.string_param, patterns);
  }
}

/** Typed contents: lists of numbers, of truth values, or of bytes. */
function maskContents(
  contents: Record<string, unknown> | undefined,
  isWhole: boolean,
  patterns: readonly RegExp[],
): void {
  for (const [name, values] of Object.entries(contents ?? {})) {
    if (contents === undefined || !Array.isArray(values)) continue;
    contents[name] = values.map((value: unknown) => {
      if (!(value instanceof Uint8Array)) return isWhole ? (typeof value === "boolean" ? false : 0) : value;
      return isWhole ? Buffer.alloc(value.length, "x") : Buffer.from(maskText(Buffer.from(value).toString(), patterns));
    });
  }
}
