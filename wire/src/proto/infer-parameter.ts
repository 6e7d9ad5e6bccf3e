/**
 * InferParameter of KServe V2 (grpc_service.proto) and the maps of it that requests, tensors and responses carry.
 * Source: protobuf encoding, "Maps" and "Oneofs".
 */
import { MAX_REPEATED_MESSAGES } from "../limits.ts";
import type { GatherWriter } from "./gather-writer.ts";
import { ProtoError, type ProtoReader } from "./proto-reader.ts";

/** A parameter and which member of its oneof was set; `none` when no member was. */
export type InferParameter =
  | { readonly kind: "bool"; readonly value: boolean }
  | { readonly kind: "int64"; readonly value: number | bigint }
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "double"; readonly value: number }
  | { readonly kind: "uint64"; readonly value: number | bigint }
  | { readonly kind: "none" };

export type InferParameters = ReadonlyMap<string, InferParameter>;

export const NO_INFER_PARAMETERS: InferParameters = new Map();
const NONE: InferParameter = { kind: "none" };

/** Reads one map entry into `parameters`; the last one of a key holds. */
export function readParameterEntry(reader: ProtoReader, parameters: Map<string, InferParameter>): void {
  let key = "";
  let value = NONE;
  const outer = reader.enter();
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 10) key = reader.string();
    else if (tag === 18) value = readParameter(reader, value);
    else reader.skip(tag);
  }
  reader.leave(outer);
  parameters.set(key, value);
  if (parameters.size > MAX_REPEATED_MESSAGES) {
    throw new ProtoError(`${parameters.size} parameters, expected at most ${MAX_REPEATED_MESSAGES}`);
  }
}

function readParameter(reader: ProtoReader, before: InferParameter): InferParameter {
  let value = before;
  const outer = reader.enter();
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 8) value = { kind: "bool", value: reader.bool() };
    else if (tag === 16) value = { kind: "int64", value: reader.int64() };
    else if (tag === 26) value = { kind: "string", value: reader.string() };
    else if (tag === 33) value = { kind: "double", value: reader.double() };
    else if (tag === 40) value = { kind: "uint64", value: reader.uint64() };
    else reader.skip(tag);
  }
  reader.leave(outer);
  return value;
}

/** Writes one map entry as the value of the field `tag`. */
export function writeParameterEntry(writer: GatherWriter, tag: number, key: string, value: InferParameter): void {
  writer.varint(tag);
  const entry = writer.begin();
  writer.string(10, key);
  writer.varint(18);
  const choice = writer.begin();
  writeChoice(writer, value);
  writer.end(choice);
  writer.end(entry);
}

function writeChoice(writer: GatherWriter, parameter: InferParameter): void {
  switch (parameter.kind) {
    case "bool":
      writer.varint(8);
      writer.varint(parameter.value ? 1 : 0);
      return;
    case "int64":
      writer.varint(16);
      writer.int64(parameter.value);
      return;
    case "string":
      writer.string(26, parameter.value);
      return;
    case "double":
      writer.varint(33);
      writer.double(parameter.value);
      return;
    case "uint64":
      writer.varint(40);
      writer.int64(parameter.value);
      return;
    case "none":
      return;
  }
}
