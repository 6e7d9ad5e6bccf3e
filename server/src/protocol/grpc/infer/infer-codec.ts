/**
 * ModelInferRequest bytes to `InferRequest`, `InferResponse` to ModelInferResponse bytes (KServe V2, gRPC; protobuf
 * encoding). One writer serves all calls in turn.
 */

import {
  decodeInferRequest,
  GatherWriter,
  type InferOutputMessage,
  type InferParameter,
  type InferParameters,
  type InferRequestMessage,
  type InferResponseMessage,
  NameCache,
  NO_INFER_PARAMETERS,
  RAW_CONTENTS_TAG,
  STREAMED_RESPONSE_TAG,
  writeInferResponse,
  writeInferResponseHead,
  writeStreamResponse,
} from "@nereid/wire";
import type { Cancellation } from "../../../core/cancellation.ts";
import type { InferRequest, ParameterValue } from "../../../core/infer-request.ts";
import type { InferResponse } from "../../../core/infer-response.ts";
import { MAX_GRPC_MESSAGE_BYTES } from "../../../core/limits.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import { ResponsePattern } from "../../../core/response-pattern.ts";
import { invalidArgument, type ServerError } from "../../../core/server-error.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { expectDistinctNames } from "../../../core/validate-request.ts";
import type { CallAccess } from "../../call-access.ts";
import { classify } from "../../classification.ts";
import { type RequestMemory, writeOutput } from "../../request-memory.ts";
import type { OutgoingMessage } from "../routes/method.ts";
import { PREFIX_BYTES } from "../transport/message-reader.ts";
import { readInputs } from "./infer-inputs.ts";
import { type GrpcOutputForm, outputNames, readForms } from "./infer-outputs.ts";
import { readRequestParameters, withForwardedMetadata } from "./infer-parameters.ts";

const FINAL: InferParameter = { kind: "bool", value: true };
const NOT_FINAL: InferParameter = { kind: "bool", value: false };
const FINAL_MARK = "triton_final_response";
const NO_DATA: Uint8Array = new Uint8Array(0);

/** A request together with what shapes its answers. */
export interface PreparedInfer {
  readonly model: ServedModel;
  readonly request: InferRequest;
  readonly forms: ReadonlyMap<string, GrpcOutputForm>;
  /** Regions that the request uses; answers must not point to them. */
  readonly memory: RequestMemory;
  readonly wantsEmptyFinal: boolean;
  /** Set where responses are sent as the model gives them: those like the one before are written in part only. */
  readonly repeated: RepeatedFields | undefined;
}

/** Parts of the answers of one request that stay. */
interface RepeatedFields {
  readonly pattern: ResponsePattern;
  fields: readonly (Uint8Array | number)[];
}

/** Response fields that the call adds. */
export interface InferContext {
  readonly metadata: NodeJS.Dict<string | string[]>;
  readonly forwardPattern: RegExp | undefined;
  readonly cancellation: Cancellation;
  /** Counts for the caller's key; absent: calls need none. */
  readonly access?: CallAccess | undefined;
  readonly trace: RequestTrace | undefined;
  /** Held from here to the end of the request. */
  readonly memory: RequestMemory;
}

export class ProtoInferCodec {
  readonly #names = new NameCache();
  readonly #writer = new GatherWriter((size) => Buffer.allocUnsafe(size));

  /** @throws ProtoError */
  decode(bytes: Uint8Array): InferRequestMessage {
    return decodeInferRequest(bytes, this.#names);
  }

  /** The answer of a unary call. @throws ServerError */
  encode(response: InferResponse, infer: PreparedInfer): OutgoingMessage {
    const message = responseMessage(response, infer, parametersOf(response.parameters, undefined));
    return releasing(
      response,
      this.#written((writer) => writeInferResponse(writer, message)),
    );
  }

  /** One answer on a stream, marked as the last of its request or not. @throws ServerError */
  encodeOnStream(response: InferResponse, infer: PreparedInfer): OutgoingMessage {
    const { repeated } = infer;
    if (repeated === undefined || response.final || response.release !== undefined)
      return this.#encode(response, infer);
    const likeness = repeated.pattern.compare(response);
    if (likeness === "unlike") return this.#encode(response, infer);
    if (likeness === "learned") {
      const message = responseMessage(response, infer, parametersOf(response.parameters, NOT_FINAL));
      repeated.fields = this.#fieldsOf(message, repeated.pattern.changes);
    }
    return this.#written((writer) => writeFields(writer, repeated.fields, response.outputs));
  }

  /** Fields of a response up to data that change, or the number of the output with such data. */
  #fieldsOf(message: InferResponseMessage, changes: readonly boolean[]): readonly (Uint8Array | number)[] {
    const fields: (Uint8Array | number)[] = [];
    const writer = new GatherWriter((size) => Buffer.allocUnsafeSlow(size));
    const cut = (): void => {
      if (writer.size > 0) fields.push(Buffer.concat(writer.finish()));
    };
    writeInferResponseHead(writer, message);
    for (const [i, output] of message.outputs.entries()) {
      if (changes[i] === true) {
        cut();
        fields.push(i);
      } else writer.bytes(RAW_CONTENTS_TAG, output.data);
    }
    cut();
    return fields;
  }

  #encode(response: InferResponse, infer: PreparedInfer): OutgoingMessage {
    const parameters = parametersOf(response.parameters, response.final ? FINAL : NOT_FINAL);
    const message = response.empty ? bareMessage(infer, parameters) : responseMessage(response, infer, parameters);
    return releasing(
      response,
      this.#written((writer) => writeStreamResponse(writer, message, "")),
    );
  }

  /** An error of the model while it ran. */
  encodeFailure(error: ServerError, infer: PreparedInfer, isFinal: boolean): OutgoingMessage {
    const message = bareMessage(infer, parametersOf(undefined, isFinal ? FINAL : NOT_FINAL));
    return this.#written((writer) => writeStreamResponse(writer, message, error.message));
  }

  /** An error of a request that never reached a model: only its id comes back. */
  encodeRefusal(errorMessage: string, id: string): OutgoingMessage {
    const message = { modelName: "", modelVersion: "", id, parameters: NO_INFER_PARAMETERS, outputs: [] };
    return this.#written((writer) => writeStreamResponse(writer, message, errorMessage));
  }

  #written(write: (writer: GatherWriter) => void): OutgoingMessage {
    const writer = this.#writer;
    try {
      write(writer);
      if (writer.size > MAX_GRPC_MESSAGE_BYTES) throw tooLarge(writer.size);
      return writer.finish(PREFIX_BYTES);
    } catch (error) {
      writer.discard();
      throw error;
    }
  }
}

function writeFields(writer: GatherWriter, fields: readonly (Uint8Array | number)[], outputs: readonly Tensor[]): void {
  for (const field of fields) {
    if (typeof field !== "number") writer.raw(field);
    else writer.bytes(RAW_CONTENTS_TAG, (outputs[field] as Tensor).data); // the pattern compared their number
  }
  writer.wrap(STREAMED_RESPONSE_TAG);
}

/** @throws ServerError for what the protocol refuses; the model's own rules are checked behind `infer` */
export function prepareInfer(message: InferRequestMessage, model: ServedModel, context: InferContext): PreparedInfer {
  const parameters = readRequestParameters(message.parameters);
  const outputs = outputNames(message.outputs);
  expectDistinctNames({ id: message.id, inputs: message.inputs, outputs });
  const custom = withForwardedMetadata(parameters.custom, context.metadata, context.forwardPattern);
  const { cancellation, access, memory, trace } = context;
  const inputs = readInputs(message, model, memory);
  const forms = readForms(message.outputs, memory);
  const request: InferRequest = {
    modelName: message.modelName,
    modelVersion: message.modelVersion,
    id: message.id,
    inputs,
    outputs,
    parameters: custom,
    sequence: parameters.sequence,
    priority: access?.priority ?? parameters.priority,
    timeoutUs: parameters.timeoutUs,
    get signal() {
      return cancellation.signal;
    },
    get isCancelled() {
      return cancellation.isCancelled;
    },
    origin: { key: cancellation, tokens: access, isLast: true },
    arrivalMs: performance.now(),
    trace,
  };
  const isPlain = model.decoupled && forms.size === 0 && !memory.isUsed;
  const repeated = isPlain ? { pattern: new ResponsePattern(true), fields: [] } : undefined;
  return { model, request, forms, memory, wantsEmptyFinal: parameters.wantsEmptyFinal, repeated };
}

/** Large outputs are pieces of the message as they are. */
function releasing({ release }: InferResponse, message: OutgoingMessage): OutgoingMessage {
  return release === undefined ? message : Object.assign(message, { release });
}

function responseMessage(
  response: InferResponse,
  infer: PreparedInfer,
  parameters: InferParameters,
): InferResponseMessage {
  const { modelName, modelVersion, id } = response;
  return { modelName, modelVersion, id, parameters, outputs: outputsOf(response, infer) };
}

/** Names the request, with the version as it was asked for. */
function bareMessage({ request }: PreparedInfer, parameters: InferParameters): InferResponseMessage {
  return {
    modelName: request.modelName,
    modelVersion: request.modelVersion,
    id: request.id,
    parameters,
    outputs: [],
  };
}

function outputsOf(response: InferResponse, infer: PreparedInfer): readonly InferOutputMessage[] {
  if (infer.forms.size === 0 && !infer.memory.isUsed) return response.outputs;
  return response.outputs.map((output) => outputAs(infer.forms.get(output.name), output, infer));
}

function outputAs(form: GrpcOutputForm | undefined, output: Tensor, { model, memory }: PreparedInfer): Tensor {
  if (form === undefined) return memory.detached(output);
  if ("target" in form) {
    writeOutput(form.target, output);
    return { ...output, data: NO_DATA };
  }
  const isBatching = model.config.max_batch_size > 0;
  return classify(output, form.numClasses, isBatching, (name, index) => model.label(name, index));
}

function parametersOf(
  values: ReadonlyMap<string, ParameterValue> | undefined,
  finalMark: InferParameter | undefined,
): InferParameters {
  if (finalMark === undefined && (values === undefined || values.size === 0)) return NO_INFER_PARAMETERS;
  const parameters = new Map<string, InferParameter>();
  if (finalMark !== undefined) parameters.set(FINAL_MARK, finalMark);
  for (const [key, value] of values ?? []) parameters.set(key, parameterOf(value));
  return parameters;
}

function parameterOf(value: ParameterValue): InferParameter {
  switch (typeof value) {
    case "boolean":
      return { kind: "bool", value };
    case "string":
      return { kind: "string", value };
    case "object":
      return { kind: "double", value: value.double };
    default:
      return { kind: "int64", value };
  }
}

function tooLarge(size: number): ServerError {
  const text = `Response has byte size ${size} which exceeds gRPC's byte size limit ${MAX_GRPC_MESSAGE_BYTES}.`;
  return invalidArgument(text);
}
