/** Writes small ONNX files, so that tests need no borrowed model. Knows just as much protobuf as that takes. */
export const ONNX_TYPE = {
  FLOAT: 1,
  UINT8: 2,
  INT8: 3,
  UINT16: 4,
  INT16: 5,
  INT32: 6,
  INT64: 7,
  STRING: 8,
  BOOL: 9,
  FLOAT16: 10,
  DOUBLE: 11,
  UINT32: 12,
  UINT64: 13,
  BFLOAT16: 16,
};
export function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Uint8Array.from(bytes);
}
export function intField(field, value) {
  return Buffer.concat([varint(field * 8), varint(value)]);
}
export function bytesField(field, value) {
  const data = typeof value === "string" ? Buffer.from(value, "utf8") : value;
  return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}
export function messageField(field, parts) {
  return bytesField(field, Buffer.concat(parts));
}
/** A field 1 of a graph. `attributes` are whole fields (see `attribute`). */
export function node(operator, inputs, outputs, attributes = []) {
  return messageField(1, [
    ...inputs.map((name) => bytesField(1, name)),
    ...outputs.map((name) => bytesField(2, name)),
    bytesField(3, `${operator}_${outputs[0] ?? ""}`),
    bytesField(4, operator),
    ...attributes,
  ]);
}
/** A field 5 of a node: name and the fields of its value. */
export function attribute(name, type, value) {
  return messageField(5, [bytesField(1, name), ...value, intField(20, type)]);
}
export function tensor(name, type, dims, data) {
  return Buffer.concat([
    ...dims.map((dim) => intField(1, dim)),
    intField(2, type),
    bytesField(8, name),
    bytesField(9, data),
  ]);
}
/** A TensorProto whose bytes are in another file. */
export function externalTensor(name, type, dims, entries) {
  return Buffer.concat([
    ...dims.map((dim) => intField(1, dim)),
    intField(2, type),
    bytesField(8, name),
    ...Object.entries(entries).map(([key, value]) => messageField(13, [bytesField(1, key), bytesField(2, value)])),
    intField(14, 1),
  ]);
}
export function graph(spec) {
  return Buffer.concat([
    ...spec.nodes,
    bytesField(2, "graph"),
    ...(spec.initializers ?? []).map((body) => bytesField(5, body)),
    ...spec.inputs.map((value) => messageField(11, valueInfo(value))),
    ...spec.outputs.map((value) => messageField(12, valueInfo(value))),
    ...(spec.graphExtra ?? []),
  ]);
}
export function model(spec) {
  return Buffer.concat([
    intField(1, 8),
    bytesField(2, "nereid-tests"),
    bytesField(7, graph(spec)),
    messageField(8, [bytesField(1, ""), intField(2, 17)]),
    ...(spec.modelExtra ?? []),
  ]);
}
export function identity(type, dims) {
  return model({
    nodes: [node("Identity", ["IN"], ["OUT"])],
    inputs: [["IN", type, dims]],
    outputs: [["OUT", type, dims]],
  });
}
/** OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1. */
export function addSub(type, dims) {
  return model({
    nodes: [node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]), node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
    inputs: [
      ["INPUT0", type, dims],
      ["INPUT1", type, dims],
    ],
    outputs: [
      ["OUTPUT0", type, dims],
      ["OUTPUT1", type, dims],
    ],
  });
}
/** Multiplies square matrices `count` times: slow at will, and stoppable between the products. */
export function matmulChain(size, count) {
  const nodes = Array.from({ length: count }, (_, index) =>
    node("MatMul", [index === 0 ? "X" : `h${index}`, "X"], [index === count - 1 ? "Y" : `h${index + 1}`]),
  );
  const dims = [size, size];
  const { FLOAT } = ONNX_TYPE;
  return model({ nodes, inputs: [["X", FLOAT, dims]], outputs: [["Y", FLOAT, dims]] });
}
function valueInfo([name, type, dims]) {
  const shape = dims.map((dim) => messageField(1, typeof dim === "number" ? [intField(1, dim)] : dimName(dim)));
  return [bytesField(1, name), messageField(2, [messageField(1, [intField(1, type), messageField(2, shape)])])];
}
function dimName(name) {
  return name === "" ? [] : [bytesField(2, name)];
}
//# sourceMappingURL=onnx-writer.js.map
