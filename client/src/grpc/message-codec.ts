/**
 * Messages off the hot path as plain objects with the field names of the .proto files, by the committed schema (KServe V2,
 * grpc_service.proto and model_config.proto; protobuf encoding, https://protobuf.dev/programming-guides/encoding/).
 */
import {
  GatherWriter,
  ProtoReader,
  type SchemaEnum,
  type SchemaField,
  type SchemaNamespace,
  type SchemaService,
  type SchemaType,
  schema,
} from "@nereid/wire";
import { joinPieces } from "../http/exchange.ts";

/** A value of a field: bytes and numbers as they are, enums by name, int64 beyond 2^53 as bigint. */
export type FieldValue =
  | string
  | number
  | bigint
  | boolean
  | Uint8Array
  | readonly FieldValue[]
  | { readonly [name: string]: FieldValue | undefined };
export type Message = { readonly [name: string]: FieldValue | undefined };

type Node = SchemaNamespace | SchemaType | SchemaEnum | SchemaService;

const PACKAGE = "inference";
const [VARINT, FIXED64, LENGTH, FIXED32] = [0, 1, 2, 5];
/** Scalar types of the schema, with their wire types. */
const WIRE_TYPES: Readonly<Record<string, number>> = {
  bool: VARINT,
  int32: VARINT,
  int64: VARINT,
  uint32: VARINT,
  uint64: VARINT,
  float: FIXED32,
  double: FIXED64,
  string: LENGTH,
  bytes: LENGTH,
};

/** Encodes a message of package `inference`. @throws TypeError for a value that its field cannot hold */
export function encodeMessage(typeName: string, message: Message): Uint8Array {
  return encode(expectType([PACKAGE], typeName), message);
}

/**
 * Decodes a message of package `inference`. Fields that are not set have their defaults, but messages and members of a oneof are
 * left out. @throws ProtoError
 */
export function decodeMessage(typeName: string, bytes: Uint8Array): Message {
  return decode(expectType([PACKAGE], typeName), new ProtoReader(bytes));
}

interface FoundType {
  /** Names from the root to the type itself. */
  readonly path: readonly string[];
  readonly type: SchemaType;
}

/** A name is looked up from the innermost scope outwards (protobuf language, "Name Resolution"). */
function find(scope: readonly string[], name: string): { path: readonly string[]; node: Node } {
  for (let depth = scope.length; depth >= 0; depth--) {
    const path = [...scope.slice(0, depth), ...name.split(".")];
    const node = nodeAt(path);
    if (node !== undefined) return { path, node };
  }
  throw new TypeError(`the schema has no type ${name} in ${scope.join(".")}`);
}

function nodeAt(path: readonly string[]): Node | undefined {
  let node: Node | undefined = schema;
  for (const name of path) {
    const nested: Readonly<Record<string, Node>> | undefined =
      node !== undefined && "nested" in node ? node.nested : undefined;
    node = nested !== undefined && Object.hasOwn(nested, name) ? nested[name] : undefined;
  }
  return node;
}

function expectType(scope: readonly string[], name: string): FoundType {
  const { path, node } = find(scope, name);
  if (!("fields" in node)) throw new TypeError(`${name} is no message of the schema`);
  return { path, type: node };
}

function enumOf(scope: readonly string[], name: string): Readonly<Record<string, number>> | undefined {
  const { node } = find(scope, name);
  return "values" in node ? node.values : undefined;
}

function encode({ path, type }: FoundType, message: Message): Uint8Array {
  const writer = new GatherWriter();
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined) continue;
    const field = Object.hasOwn(type.fields, name) ? type.fields[name] : undefined;
    if (field === undefined) throw new TypeError(`${path.join(".")} has no field ${name}`);
    for (const one of valuesOf(field, value)) writeField(writer, path, field, one);
  }
  return joinPieces(writer.finish());
}

/** One value for each occurrence of the field; entries of a map are messages (protobuf encoding, "Maps"). */
function valuesOf(field: SchemaField, value: FieldValue): readonly FieldValue[] {
  if (field.keyType !== undefined) {
    return Object.entries(value as Message).map(([key, entry]) => ({ key, value: entry }));
  }
  return field.rule === "repeated" ? (value as readonly FieldValue[]) : [value];
}

function writeField(writer: GatherWriter, scope: readonly string[], field: SchemaField, value: FieldValue): void {
  if (field.keyType !== undefined) {
    const type = { fields: entryFields(field, field.keyType) };
    writer.bytes((field.id << 3) | LENGTH, encode({ path: scope, type }, value as Message));
    return;
  }
  const wireType = WIRE_TYPES[field.type];
  if (wireType === undefined) {
    writeNamedType(writer, scope, field, value);
    return;
  }
  const tag = (field.id << 3) | wireType;
  if (field.type === "string") writer.string(tag, String(value));
  else if (field.type === "bytes") writer.bytes(tag, value as Uint8Array);
  else {
    writer.varint(tag);
    if (field.type === "double") writer.double(Number(value));
    else if (field.type === "bool") writer.varint(value === true ? 1 : 0);
    else writer.int64(value as number | bigint);
  }
}

function writeNamedType(writer: GatherWriter, scope: readonly string[], field: SchemaField, value: FieldValue): void {
  const values = enumOf(scope, field.type);
  if (values === undefined) {
    writer.bytes((field.id << 3) | LENGTH, encode(expectType(scope, field.type), value as Message));
    return;
  }
  writer.varint(field.id << 3);
  writer.int64(values[String(value)] ?? 0);
}

function entryFields(field: SchemaField, keyType: string): Readonly<Record<string, SchemaField>> {
  return { key: { type: keyType, id: 1 }, value: { type: field.type, id: 2 } };
}

function decode({ path, type }: FoundType, reader: ProtoReader): Message {
  const byId = new Map(Object.entries(type.fields).map(([name, field]) => [field.id, { name, field }]));
  const message: Record<string, FieldValue> = {};
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    const known = byId.get(tag >>> 3);
    if (known === undefined) reader.skip(tag);
    else readField(reader, tag & 7, path, known, message);
  }
  return { ...defaultsOf(type, path), ...message };
}

function readField(
  reader: ProtoReader,
  wireType: number,
  scope: readonly string[],
  { name, field }: { readonly name: string; readonly field: SchemaField },
  message: Record<string, FieldValue>,
): void {
  if (field.keyType !== undefined) {
    const type = { fields: entryFields(field, field.keyType) };
    const outer = reader.enter();
    const entry = decode({ path: scope, type }, reader);
    reader.leave(outer);
    define(message, name, { ...(message[name] as Message), ...Object.fromEntries([[String(entry.key), entry.value]]) });
    return;
  }
  if (field.rule !== "repeated") {
    define(message, name, readValue(reader, scope, field));
    return;
  }
  const list = [...((message[name] as readonly FieldValue[] | undefined) ?? [])];
  const isPacked = wireType === LENGTH && field.type !== "string" && field.type !== "bytes" && isPackable(scope, field);
  if (isPacked) {
    const outer = reader.enter();
    while (reader.pos < reader.end) list.push(readValue(reader, scope, field));
    reader.leave(outer);
  } else {
    list.push(readValue(reader, scope, field));
  }
  define(message, name, list);
}

/** Field names come from the schema; keys of maps from the server: none reaches a prototype. */
function define(message: Record<string, FieldValue>, name: string, value: FieldValue): void {
  Object.defineProperty(message, name, { value, enumerable: true, configurable: true, writable: true });
}

function isPackable(scope: readonly string[], field: SchemaField): boolean {
  return WIRE_TYPES[field.type] !== undefined || enumOf(scope, field.type) !== undefined;
}

function readValue(reader: ProtoReader, scope: readonly string[], field: SchemaField): FieldValue {
  switch (field.type) {
    case "bool":
      return reader.bool();
    case "int32":
      return Number(reader.int64());
    case "uint32":
      return reader.uint32();
    case "int64":
      return reader.int64();
    case "uint64":
      return reader.uint64();
    case "double":
      return reader.double();
    case "float":
      return floatOf(reader.fixed(4, false));
    case "string":
      return reader.string();
    case "bytes":
      return reader.view();
    default:
      return readNamedType(reader, scope, field);
  }
}

function readNamedType(reader: ProtoReader, scope: readonly string[], field: SchemaField): FieldValue {
  const values = enumOf(scope, field.type);
  if (values !== undefined) {
    const number = Number(reader.int64());
    return Object.entries(values).find(([, value]) => value === number)?.[0] ?? number;
  }
  const outer = reader.enter();
  const message = decode(expectType(scope, field.type), reader);
  reader.leave(outer);
  return message;
}

function floatOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
}

function defaultsOf(type: SchemaType, scope: readonly string[]): Message {
  const chosen = new Set(Object.values(type.oneofs ?? {}).flatMap(({ oneof }) => oneof));
  const fields = Object.entries(type.fields).filter(([name]) => !chosen.has(name));
  return Object.fromEntries(fields.flatMap(([name, field]) => defaultOf(name, field, scope)));
}

/** None for a message. */
function defaultOf(name: string, field: SchemaField, scope: readonly string[]): [string, FieldValue][] {
  if (field.keyType !== undefined) return [[name, {}]];
  if (field.rule === "repeated") return [[name, []]];
  if (field.type === "string") return [[name, ""]];
  if (field.type === "bool") return [[name, false]];
  if (field.type === "bytes") return [[name, new Uint8Array(0)]];
  if (WIRE_TYPES[field.type] !== undefined) return [[name, 0]];
  const values = enumOf(scope, field.type);
  const zero = Object.entries(values ?? {}).find(([, value]) => value === 0);
  return zero === undefined ? [] : [[name, zero[0]]];
}
