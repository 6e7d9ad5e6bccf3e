/**
 * Turns wire/proto/*.proto into the two committed modules of wire/src/gen: the schema (protobufjs JSON descriptor, so that
 * nothing is parsed at run time) and the file descriptors that server reflection hands out.
 * `--check` writes nothing and fails when the committed modules are out of date.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Enum, FieldBase, Namespace, OneOf, ReflectionObject, Root, Service, Type } from "protobufjs";

// The server's protobufjs, not the older one that a development tool brings to the top of the workspace.
const require = createRequire(new URL("../server/package.json", import.meta.url));
const protobuf: typeof import("protobufjs") = require("protobufjs");
const descriptorRoot = protobuf.Root.fromJSON(require("protobufjs/google/protobuf/descriptor.json"));
const FileDescriptorProto = descriptorRoot.lookupType("google.protobuf.FileDescriptorProto");

const PROTO_FOLDER = fileURLToPath(new URL("../wire/proto/", import.meta.url));
const GEN_FOLDER = fileURLToPath(new URL("../wire/src/gen/", import.meta.url));
const HEADER = "// Written by tools/generate-schema.ts from wire/proto; do not edit.\n";
const SCALARS = [
  "double",
  "float",
  "int64",
  "uint64",
  "int32",
  "fixed64",
  "fixed32",
  "bool",
  "string",
  "group",
  "message",
  "bytes",
  "uint32",
  "enum",
];
const TYPE_NUMBERS = new Map(SCALARS.map((name, index) => [name, index + 1]));
const LABEL = { optional: 1, repeated: 3 };

/** The text of every generated module by its file name. */
export function generate(): ReadonlyMap<string, string> {
  const files = protoFiles();
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => join(PROTO_FOLDER, target.replace(PROTO_FOLDER, ""));
  root.loadSync(files, { keepCase: true });
  root.resolveAll();
  const schema = JSON.stringify(root.toJSON({ keepComments: false }), undefined, 1);
  const descriptors = files.map((file) => `  ${JSON.stringify(file)}: ${describeFile(root, file)},\n`).join("");
  return new Map([
    [
      "schema.ts",
      `${HEADER}import type { SchemaNamespace } from "../proto/schema-types.ts";\n\nexport const schema: SchemaNamespace = ${schema};\n`,
    ],
    [
      "descriptors.ts",
      `${HEADER}import type { FileDescriptor } from "../proto/schema-types.ts";\n\n` +
        `export const fileDescriptors: Readonly<Record<string, FileDescriptor>> = {\n${descriptors}};\n`,
    ],
  ]);
}

function protoFiles(): string[] {
  return readdirSync(PROTO_FOLDER, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".proto"))
    .sort();
}

/** The text of one file's `FileDescriptor`. */
function describeFile(root: Root, file: string): string {
  const source = readFileSync(join(PROTO_FOLDER, file), "utf8");
  const pkg = /^package ([\w.]+);/m.exec(source)?.[1] ?? "";
  const scope = root.lookup(pkg) as Namespace;
  const members = scope.nestedArray.filter((member) => member.filename === join(PROTO_FOLDER, file));
  const dependencies = [...source.matchAll(/^import "([^"]+)";/gm)].map((match) => match[1]);
  const message = {
    name: file,
    package: pkg,
    dependency: dependencies,
    messageType: members.filter(isType).map(typeDescriptor),
    enumType: members.filter(isEnum).map(enumDescriptor),
    service: members.filter(isService).map(serviceDescriptor),
    syntax: "proto3",
  };
  const bytes = FileDescriptorProto.encode(FileDescriptorProto.fromObject(message)).finish();
  const symbols = members.flatMap(symbolsOf);
  return JSON.stringify({ dependencies, symbols, base64: Buffer.from(bytes).toString("base64") }, undefined, 1);
}

/** Full names of a message, enum or service and of all that it declares, methods included. */
function symbolsOf(member: ReflectionObject): string[] {
  const inner = isType(member) ? member.nestedArray : isService(member) ? member.methodsArray : [];
  return [member.fullName.slice(1), ...inner.flatMap(symbolsOf)];
}

const isType = (member: ReflectionObject): member is Type => member instanceof protobuf.Type;
const isEnum = (member: ReflectionObject): member is Enum => member instanceof protobuf.Enum;
const isService = (member: ReflectionObject): member is Service => member instanceof protobuf.Service;

function typeDescriptor(type: Type): object {
  const entries = type.fieldsArray.filter((field) => field.map);
  return {
    name: type.name,
    field: type.fieldsArray.map((field) => fieldDescriptor(type, field)),
    nestedType: [...type.nestedArray.filter(isType).map(typeDescriptor), ...entries.map(mapEntry)],
    enumType: type.nestedArray.filter(isEnum).map(enumDescriptor),
    oneofDecl: type.oneofsArray.map((oneof: OneOf) => ({ name: oneof.name })),
  };
}

function fieldDescriptor(type: Type, field: FieldBase): object {
  const common = { name: field.name, number: field.id, jsonName: jsonName(field.name) };
  if (field.map) {
    const typeName = `${type.fullName}.${entryName(field.name)}`;
    return { ...common, label: LABEL.repeated, type: TYPE_NUMBERS.get("message"), typeName };
  }
  const oneof = field.partOf === null ? {} : { oneofIndex: type.oneofsArray.indexOf(field.partOf) };
  return { ...common, ...oneof, label: field.repeated ? LABEL.repeated : LABEL.optional, ...valueType(field) };
}

function valueType(field: FieldBase): object {
  const resolved = field.resolvedType;
  if (resolved === null) return { type: TYPE_NUMBERS.get(field.type) };
  return { type: TYPE_NUMBERS.get(isEnum(resolved) ? "enum" : "message"), typeName: resolved.fullName };
}

/** The hidden message behind a map field, which descriptors spell out. */
function mapEntry(field: FieldBase): object {
  const keyType = "keyType" in field ? String(field.keyType) : "string";
  const key = { name: "key", number: 1, label: LABEL.optional, type: TYPE_NUMBERS.get(keyType), jsonName: "key" };
  const value = { name: "value", number: 2, label: LABEL.optional, ...valueType(field), jsonName: "value" };
  return { name: entryName(field.name), field: [key, value], options: { mapEntry: true } };
}

function enumDescriptor(type: Enum): object {
  return { name: type.name, value: Object.entries(type.values).map(([name, number]) => ({ name, number })) };
}

function serviceDescriptor(service: Service): object {
  const method = service.methodsArray.map((rpc) => ({
    name: rpc.name,
    inputType: rpc.resolvedRequestType?.fullName,
    outputType: rpc.resolvedResponseType?.fullName,
    ...(rpc.requestStream ? { clientStreaming: true } : {}),
    ...(rpc.responseStream ? { serverStreaming: true } : {}),
  }));
  return { name: service.name, method };
}

const entryName = (field: string): string => `${upperFirst(jsonName(field))}Entry`;
const jsonName = (field: string): string =>
  field.replace(/_([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
const upperFirst = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isCheck = process.argv.includes("--check");
  for (const [name, text] of generate()) {
    if (!isCheck) writeFileSync(join(GEN_FOLDER, name), text);
    else if (readFileSync(join(GEN_FOLDER, name), "utf8") !== text) {
      process.stderr.write(`wire/src/gen/${name} is out of date: run node --import tsx tools/generate-schema.ts\n`);
      process.exitCode = 1;
    }
  }
}
