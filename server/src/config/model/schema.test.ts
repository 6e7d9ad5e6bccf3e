import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import protobuf from "protobufjs";
import { type FieldSpec, messageNames, messageSpec } from "./schema.ts";

const definition: string = readFileSync(new URL("../../../../wire/proto/model_config.proto", import.meta.url), "utf8");
const root: protobuf.Root = protobuf.parse(definition, { keepCase: true }).root;

function definedMessages(parent: protobuf.NamespaceBase, prefix: string): [string, protobuf.Type][] {
  return parent.nestedArray.flatMap((member): [string, protobuf.Type][] => {
    if (!(member instanceof protobuf.Type)) return [];
    const name = `${prefix}${member.name}`;
    return [[name, member], ...definedMessages(member, `${name}.`)];
  });
}

function valueText(spec: FieldSpec): string {
  if (spec.value.kind === "scalar") return spec.value.type;
  return spec.value.kind === "enum" ? `${spec.value.name}=${spec.value.values.join()}` : spec.value.name;
}

function describeSpec(spec: FieldSpec): string {
  const key = spec.shape === "map" ? spec.key : "";
  return `${spec.name} ${spec.shape} ${key} ${valueText(spec)} ${spec.choice ?? ""}`;
}

function describeDefined(field: protobuf.Field): string {
  field.resolve();
  const shape = field instanceof protobuf.MapField ? "map" : field.repeated ? "list" : "single";
  const key = field instanceof protobuf.MapField ? field.keyType : "";
  const type = field.resolvedType;
  const name = type === null ? field.type : type.fullName.replace(".inference.", "");
  const values = type instanceof protobuf.Enum ? `=${Object.keys(type.values).join()}` : "";
  return `${field.name} ${shape} ${key} ${name}${values} ${field.partOf?.name ?? ""}`;
}

const messages: [string, protobuf.Type][] = definedMessages(root.lookup("inference") as protobuf.Namespace, "");

test("messageNames() lists every message of the protobuf definition", () => {
  assert.deepEqual(messageNames().toSorted(), messages.map(([name]) => name).sort());
  assert.equal(messages.length, 46);
});

for (const [name, type] of messages) {
  test(`messageSpec() has the fields, types and choices of ${name}`, () => {
    const specs = [...messageSpec(name).values()].map(describeSpec).sort();
    assert.deepEqual(specs, type.fieldsArray.map(describeDefined).sort());
  });
}

test("messageSpec() refuses an unknown message", () => {
  assert.throws(() => messageSpec("Nope"), /no message 'Nope'/);
});
