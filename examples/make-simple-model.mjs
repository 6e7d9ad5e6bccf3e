/**
 * Writes model_repository/simple/1/model.onnx: OUTPUT0 = INPUT0 + INPUT1 and OUTPUT1 = INPUT0 - INPUT1 on INT32 [batch, 16].
 * ONNX is protobuf; the few messages of such a model are written here by hand, field numbers from onnx.proto.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const INT32 = 6; // TensorProto.DataType
const IR_VERSION = 8;
const OPSET_VERSION = 13;
const VARINT = 0;
const LENGTH_DELIMITED = 2;

function varint(value) {
  const bytes = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

const integer = (field, value) => Buffer.concat([varint(field * 8 + VARINT), varint(value)]);

function message(field, ...parts) {
  const body = Buffer.concat(parts);
  return Buffer.concat([varint(field * 8 + LENGTH_DELIMITED), varint(body.length), body]);
}

const text = (field, value) => message(field, Buffer.from(value));

const node = (operator, output) =>
  message(1, text(1, "INPUT0"), text(1, "INPUT1"), text(2, output), text(3, output), text(4, operator));

function value(field, name) {
  const batch = message(1, text(2, "batch"));
  const width = message(1, integer(1, 16));
  return message(field, text(1, name), message(2, message(1, integer(1, INT32), message(2, batch, width))));
}

const [INPUT, OUTPUT] = [11, 12]; // fields of GraphProto
const graph = message(
  7,
  node("Add", "OUTPUT0"),
  node("Sub", "OUTPUT1"),
  text(2, "simple"),
  value(INPUT, "INPUT0"),
  value(INPUT, "INPUT1"),
  value(OUTPUT, "OUTPUT0"),
  value(OUTPUT, "OUTPUT1"),
);
const operators = message(8, integer(2, OPSET_VERSION));
const model = Buffer.concat([integer(1, IR_VERSION), text(2, "nereid-examples"), graph, operators]);

const path = fileURLToPath(new URL("model_repository/simple/1/model.onnx", import.meta.url));
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, model);
console.log(`${path}: ${model.length} bytes`);
