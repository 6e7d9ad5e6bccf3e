/** Inference requests and responses as messages of gRPC (KServe V2, grpc_service.proto), with raw tensors. */
import {
  checkBytesElements,
  decodeInferResponse,
  decodeStreamResponse,
  elementSize,
  GatherWriter,
  type InferOutputMessage,
  type InferParameter,
  type InferParameters,
  type InferResponseMessage,
  isDatatype,
  NameCache,
  type OutgoingInput,
  ProtoError,
  type RequestedOutputMessage,
  type V2Output,
  writeInferRequest,
} from "@nereid/wire";
import { ClientError } from "../client-error.ts";
import type { ErrorContext } from "../error-details.ts";
import {
  contextOf,
  type InferRequest,
  type RequestedOutput,
  type RequestParameter,
  regionsOf,
} from "../infer-request.ts";
import { InferResult, type ParameterValue } from "../infer-result.ts";
import type { ModelTypes } from "../model-types.ts";
import type { InputTensor, RegionPart } from "../tensor.ts";
import { framePieces, PREFIX_BYTES } from "./message-frames.ts";

const INT64_END: bigint = 2n ** 63n;
/** Parameters that the protocol defines as uint64 (Triton's schedule policy extension). */
const UNSIGNED: ReadonlySet<string> = new Set(["priority"]);

/** A framed request; tensors are views. */
export function encodeInferMessage(request: InferRequest): readonly Uint8Array[] {
  const writer = new GatherWriter();
  writeInferRequest(writer, {
    modelName: request.model,
    modelVersion: request.version,
    id: request.id,
    parameters: parametersOf(request.parameters),
    inputs: request.inputs.map(inputMessage),
    outputs: request.outputs.map(outputMessage),
  });
  return framePieces(writer.finish(PREFIX_BYTES));
}

function inputMessage({ name, datatype, shape, data, memory }: InputTensor): OutgoingInput {
  if (memory === undefined) return { name, datatype, shape, data };
  return { name, datatype, shape, data: undefined, parameters: parametersOf(memoryParameters(memory)) };
}

function outputMessage({ name, classCount, memory }: RequestedOutput): RequestedOutputMessage {
  const parameters = {
    ...(memory === undefined ? {} : memoryParameters(memory)),
    ...(classCount === undefined ? {} : { classification: classCount }),
  };
  return { name, parameters: parametersOf(parameters) };
}

function memoryParameters({ region, byteSize, offset = 0 }: RegionPart): Readonly<Record<string, RequestParameter>> {
  return { shared_memory_region: region, shared_memory_byte_size: byteSize, shared_memory_offset: offset };
}

function parametersOf(parameters: Readonly<Record<string, RequestParameter>>): InferParameters {
  return new Map(Object.entries(parameters).map(([name, value]) => [name, parameterOf(name, value)]));
}

function parameterOf(name: string, value: RequestParameter): InferParameter {
  if (typeof value === "string") return { kind: "string", value };
  if (typeof value === "boolean") return { kind: "bool", value };
  if (UNSIGNED.has(name) || (typeof value === "bigint" && value >= INT64_END)) return { kind: "uint64", value };
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return { kind: "int64", value };
  return { kind: "double", value };
}

/** Reads responses; names that repeat are kept. */
export class InferMessageReader {
  readonly #names = new NameCache();

  /** @throws ClientError for a message that violates the protocol */
  result<M extends ModelTypes>(bytes: Uint8Array, request: InferRequest): InferResult<M> {
    return checked(contextOf(request), () => resultOf<M>(decodeInferResponse(bytes, this.#names), regionsOf(request)));
  }

  /** A result of a stream, or the error of one request. @throws ClientError for a message that violates the protocol */
  streamed<M extends ModelTypes>(
    bytes: Uint8Array,
    model: string,
    regions: ReadonlyMap<string, string>,
  ): InferResult<M> | ClientError {
    return checked({ model }, () => {
      const { errorMessage, response } = decodeStreamResponse(bytes, this.#names);
      const requestId = response?.id === "" ? undefined : response?.id;
      if (errorMessage !== "") return new ClientError("server", errorMessage, { model, requestId });
      if (response === undefined) throw new ProtoError("a message of the stream has neither response nor error");
      return resultOf<M>(response, regions);
    });
  }
}

function checked<T>(context: ErrorContext, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ProtoError)) throw error;
    throw new ClientError("protocol", `ModelInferResponse: ${error.message}`, { ...context, cause: error });
  }
}

function resultOf<M extends ModelTypes>(
  message: InferResponseMessage,
  regions: ReadonlyMap<string, string>,
): InferResult<M> {
  const parameters = new Map<string, ParameterValue>();
  for (const [name, parameter] of message.parameters) {
    parameters.set(name, parameter.kind === "none" ? null : parameter.value);
  }
  const { id, modelName, modelVersion } = message;
  const outputs = message.outputs.map((output) => outputOf(output, regions.get(output.name)));
  return new InferResult<M>({ id, modelName, modelVersion, parameters, outputs });
}

/** @throws ProtoError when the data does not fit the shape */
function outputOf({ name, datatype, shape, data }: InferOutputMessage, region: string | undefined): V2Output {
  if (!isDatatype(datatype)) throw new ProtoError(`output '${name}': unknown datatype '${datatype}'`);
  if (region !== undefined && data.length === 0) return { name, datatype, shape, data, region };
  const count = shape.reduce((product, dim) => product * dim, 1);
  const isRight =
    datatype === "BYTES"
      ? checkBytesElements(data, count) === undefined
      : data.length === count * elementSize(datatype);
  if (!isRight) {
    throw new ProtoError(`output '${name}': ${data.length} bytes are no ${datatype} of shape [${shape.join(",")}]`);
  }
  return { name, datatype, shape, data };
}
