/**
 * Reads and writes ModelInferRequest of KServe V2 (grpc_service.proto). Raw tensors are views of the message, never
 * copies.
 */
import type { Datatype } from "../datatype.ts";
import { MAX_REPEATED_MESSAGES } from "../limits.ts";
import type { ByteBuilder } from "./byte-builder.ts";
import type { GatherWriter } from "./gather-writer.ts";
import {
  type InferParameter,
  type InferParameters,
  NO_INFER_PARAMETERS,
  readParameterEntry,
  writeParameterEntry,
} from "./infer-parameter.ts";
import type { NameCache } from "./name-cache.ts";
import { ProtoError, ProtoReader } from "./proto-reader.ts";
import { readShapeField, writeShape } from "./shape.ts";
import { type ContentsKind, readContents, type TypedContents, typedContents } from "./tensor-contents.ts";

export interface InferRequestMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly inputs: readonly InferInputMessage[];
  readonly outputs: readonly RequestedOutputMessage[];
  readonly rawInputContents: readonly Uint8Array[];
}

export interface InferInputMessage {
  readonly name: string;
  /** As sent, possibly no datatype at all. */
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly parameters: InferParameters;
  /** Members of `contents` that have elements; undefined when there was no `contents`. */
  readonly contents: readonly TypedContents[] | undefined;
}

export interface RequestedOutputMessage {
  readonly name: string;
  readonly parameters: InferParameters;
}

/** @throws ProtoError */
export function decodeInferRequest(bytes: Uint8Array, names: NameCache): InferRequestMessage {
  const reader = new ProtoReader(bytes, names);
  let modelName = "";
  let modelVersion = "";
  let id = "";
  let parameters: Map<string, InferParameter> | undefined;
  const inputs: InferInputMessage[] = [];
  const outputs: RequestedOutputMessage[] = [];
  const rawInputContents: Uint8Array[] = [];
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        modelName = reader.string();
        break;
      case 18:
        modelVersion = reader.string();
        break;
      case 26:
        id = reader.string();
        break;
      case 34:
        parameters ??= new Map();
        readParameterEntry(reader, parameters);
        break;
      case 42:
        push(inputs, readInput(reader));
        break;
      case 50:
        push(outputs, readOutput(reader));
        break;
      case 58:
        push(rawInputContents, reader.view());
        break;
      default:
        reader.skip(tag);
    }
  }
  return {
    modelName,
    modelVersion,
    id,
    parameters: parameters ?? NO_INFER_PARAMETERS,
    inputs,
    outputs,
    rawInputContents,
  };
}

function push<T>(list: T[], item: T): void {
  if (list.length >= MAX_REPEATED_MESSAGES) {
    throw new ProtoError(`${list.length + 1} tensors or more, expected at most ${MAX_REPEATED_MESSAGES}`);
  }
  list.push(item);
}

function readInput(reader: ProtoReader): InferInputMessage {
  const outer = reader.enter();
  let name = "";
  let datatype = "";
  const shape: number[] = [];
  let parameters: Map<string, InferParameter> | undefined;
  let members: Map<ContentsKind, ByteBuilder> | undefined;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 10) name = reader.string();
    else if (tag === 18) datatype = reader.string();
    else if (tag === 24 || tag === 26) readShapeField(reader, tag, shape);
    else if (tag === 34) {
      parameters ??= new Map();
      readParameterEntry(reader, parameters);
    } else if (tag === 42) {
      members ??= new Map();
      readContents(reader, members);
    } else reader.skip(tag);
  }
  reader.leave(outer);
  const contents = members === undefined ? undefined : typedContents(members);
  return { name, datatype, shape, parameters: parameters ?? NO_INFER_PARAMETERS, contents };
}

function readOutput(reader: ProtoReader): RequestedOutputMessage {
  const outer = reader.enter();
  let name = "";
  let parameters: Map<string, InferParameter> | undefined;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 10) name = reader.string();
    else if (tag === 18) {
      parameters ??= new Map();
      readParameterEntry(reader, parameters);
    } else reader.skip(tag);
  }
  reader.leave(outer);
  return { name, parameters: parameters ?? NO_INFER_PARAMETERS };
}

/** A request to write; tensors always go raw. */
export interface OutgoingInferRequest {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly inputs: readonly OutgoingInput[];
  readonly outputs: readonly RequestedOutputMessage[];
}

export interface OutgoingInput {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  /** Undefined: the data lies in shared memory, which `parameters` name. */
  readonly data: Uint8Array | undefined;
  readonly parameters?: InferParameters;
}

export function writeInferRequest(writer: GatherWriter, request: OutgoingInferRequest): void {
  writer.stringField(10, request.modelName);
  writer.stringField(18, request.modelVersion);
  writer.stringField(26, request.id);
  for (const [key, value] of request.parameters) writeParameterEntry(writer, 34, key, value);
  for (const input of request.inputs) {
    writer.varint(42);
    const mark = writer.begin();
    writer.stringField(10, input.name);
    writer.stringField(18, input.datatype);
    writeShape(writer, 26, input.shape);
    for (const [key, value] of input.parameters ?? NO_INFER_PARAMETERS) writeParameterEntry(writer, 34, key, value);
    writer.end(mark);
  }
  for (const output of request.outputs) {
    writer.varint(50);
    const mark = writer.begin();
    writer.stringField(10, output.name);
    for (const [key, value] of output.parameters) writeParameterEntry(writer, 18, key, value);
    writer.end(mark);
  }
  for (const { data } of request.inputs) if (data !== undefined) writer.bytes(58, data);
}
