/**
 * Reads and writes ModelInferResponse and ModelStreamInferResponse of KServe V2 (grpc_service.proto). Tensor data is
 * always raw.
 */
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

/** `raw_output_contents`. */
export const RAW_CONTENTS_TAG = 50;
/** `infer_response` of a message on a stream. */
export const STREAMED_RESPONSE_TAG = 18;

export interface InferResponseMessage {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: InferParameters;
  readonly outputs: readonly InferOutputMessage[];
}

export interface InferOutputMessage {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

export interface StreamResponseMessage {
  /** "" = success. */
  readonly errorMessage: string;
  readonly response: InferResponseMessage | undefined;
}

export function writeInferResponse(writer: GatherWriter, response: InferResponseMessage): void {
  writeInferResponseHead(writer, response);
  for (const output of response.outputs) writer.bytes(RAW_CONTENTS_TAG, output.data);
}

/** All but the data of the outputs. */
export function writeInferResponseHead(writer: GatherWriter, response: InferResponseMessage): void {
  writer.stringField(10, response.modelName);
  writer.stringField(18, response.modelVersion);
  writer.stringField(26, response.id);
  if (response.parameters.size > 0) {
    for (const [key, value] of response.parameters) writeParameterEntry(writer, 34, key, value);
  }
  for (const output of response.outputs) {
    writer.varint(42);
    const mark = writer.begin();
    writer.stringField(10, output.name);
    writer.stringField(18, output.datatype);
    writeShape(writer, 26, output.shape);
    writer.end(mark);
  }
}

/** The error comes behind the response, which the order of fields leaves free: so nothing has to be measured ahead. */
export function writeStreamResponse(writer: GatherWriter, response: InferResponseMessage, errorMessage: string): void {
  writeInferResponse(writer, response);
  writer.wrap(STREAMED_RESPONSE_TAG);
  writer.stringField(10, errorMessage);
}

/** @throws ProtoError */
export function decodeInferResponse(bytes: Uint8Array, names: NameCache): InferResponseMessage {
  return readResponse(new ProtoReader(bytes, names));
}

/** @throws ProtoError */
export function decodeStreamResponse(bytes: Uint8Array, names: NameCache): StreamResponseMessage {
  const reader = new ProtoReader(bytes, names);
  let errorMessage = "";
  let response: InferResponseMessage | undefined;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 10) errorMessage = reader.string();
    else if (tag === 18) {
      const outer = reader.enter();
      response = readResponse(reader);
      reader.leave(outer);
    } else reader.skip(tag);
  }
  return { errorMessage, response };
}

interface OutputHead {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly contents: readonly TypedContents[];
}

function readResponse(reader: ProtoReader): InferResponseMessage {
  let modelName = "";
  let modelVersion = "";
  let id = "";
  let parameters: Map<string, InferParameter> | undefined;
  const heads: OutputHead[] = [];
  const raw: Uint8Array[] = [];
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
        heads.push(readOutput(reader));
        break;
      case 50:
        raw.push(reader.view());
        break;
      default:
        reader.skip(tag);
    }
    if (heads.length + raw.length > 2 * MAX_REPEATED_MESSAGES) throw new ProtoError("too many outputs");
  }
  const outputs = heads.map((head, index) => outputOf(head, raw[index]));
  return { modelName, modelVersion, id, parameters: parameters ?? NO_INFER_PARAMETERS, outputs };
}

function readOutput(reader: ProtoReader): OutputHead {
  const outer = reader.enter();
  let name = "";
  let datatype = "";
  const shape: number[] = [];
  const members = new Map<ContentsKind, ByteBuilder>();
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 10) name = reader.string();
    else if (tag === 18) datatype = reader.string();
    else if (tag === 24 || tag === 26) readShapeField(reader, tag, shape);
    else if (tag === 42) readContents(reader, members);
    else reader.skip(tag);
  }
  reader.leave(outer);
  return { name, datatype, shape, contents: typedContents(members) };
}

function outputOf(head: OutputHead, raw: Uint8Array | undefined): InferOutputMessage {
  const { name, datatype, shape, contents } = head;
  return { name, datatype, shape, data: raw ?? contents[0]?.data ?? new Uint8Array(0) };
}
