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
} as const;

/** A number is a fixed dimension, a text the name of a free one, "" a free one without name. */
export type Dim = number | string;
export type ValueSpec = readonly [name: string, elementType: number, dims: readonly Dim[]];

export interface ModelSpec {
  readonly nodes: readonly Uint8Array[];
  readonly inputs: readonly ValueSpec[];
  readonly outputs: readonly ValueSpec[];
  /** Bodies of TensorProto messages. */
  readonly initializers?: readonly Uint8Array[];
  /** Further fields of the graph and of the model, as they are. */
  readonly graphExtra?: readonly Uint8Array[];
  readonly modelExtra?: readonly Uint8Array[];
}

export function varint(value: number | bigint): Uint8Array {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Uint8Array.from(bytes);
}

export function intField(field: number, value: number | bigint): Uint8Array {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

export function bytesField(field: number, value: Uint8Array | string): Uint8Array {
  const data = typeof value === "string" ? Buffer.from(value, "utf8") : value;
  return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}

export function messageField(field: number, parts: readonly Uint8Array[]): Uint8Array {
  return bytesField(field, Buffer.concat(parts));
}

/** A field 1 of a graph. `attributes` are whole fields (see `attribute`). */
export function node(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes: readonly Uint8Array[] = [],
): Uint8Array {
  return messageField(1, [
    ...inputs.map((name) => bytesField(1, name)),
    ...outputs.map((name) => bytesField(2, name)),
    bytesField(3, `${operator}_${outputs[0] ?? ""}`),
    bytesField(4, operator),
    ...attributes,
  ]);
}

/** A field 5 of a node: name and the fields of its value. */
export function attribute(name: string, type: number, value: readonly Uint8Array[]): Uint8Array {
  return messageField(5, [bytesField(1, name), ...value, intField(20, type)]);
}

export function tensor(name: string, type: number, dims: readonly number[], data: Uint8Array): Uint8Array {
  return Buffer.concat([
    ...dims.map((dim) => intField(1, dim)),
    intField(2, type),
    bytesField(8, name),
    bytesField(9, data),
  ]);
}

/** A TensorProto whose bytes are in another file. */
export function externalTensor(
  name: string,
  type: number,
  dims: readonly number[],
  entries: Readonly<Record<string, string>>,
): Uint8Array {
  return Buffer.concat([
    ...dims.map((dim) => intField(1, dim)),
    intField(2, type),
    bytesField(8, name),
    ...Object.entries(entries).map(([key, value]) => messageField(13, [bytesField(1, key), bytesField(2, value)])),
    intField(14, 1),
  ]);
}

export function graph(spec: ModelSpec): Uint8Array {
  return Buffer.concat([
    ...spec.nodes,
    bytesField(2, "graph"),
    ...(spec.initializers ?? []).map((body) => bytesField(5, body)),
    ...spec.inputs.map((value) => messageField(11, valueInfo(value))),
    ...spec.outputs.map((value) => messageField(12, valueInfo(value))),
    ...(spec.graphExtra ?? []),
  ]);
}

export function model(spec: ModelSpec): Uint8Array {
  return Buffer.concat([
    intField(1, 8),
    bytesField(2, "nereid-tests"),
    bytesField(7, graph(spec)),
    messageField(8, [bytesField(1, ""), intField(2, 17)]),
    ...(spec.modelExtra ?? []),
  ]);
}

export function identity(type: number, dims: readonly Dim[]): Uint8Array {
  return model({
    nodes: [node("Identity", ["IN"], ["OUT"])],
    inputs: [["IN", type, dims]],
    outputs: [["OUT", type, dims]],
  });
}

/** OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1. */
export function addSub(type: number, dims: readonly Dim[]): Uint8Array {
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
export function matmulChain(size: number, count: number): Uint8Array {
  const nodes = Array.from({ length: count }, (_, index) =>
    node("MatMul", [index === 0 ? "X" : `h${index}`, "X"], [index === count - 1 ? "Y" : `h${index + 1}`]),
  );
  const dims = [size, size];
  const { FLOAT } = ONNX_TYPE;
  return model({ nodes, inputs: [["X", FLOAT, dims]], outputs: [["Y", FLOAT, dims]] });
}

function valueInfo([name, type, dims]: ValueSpec): Uint8Array[] {
  const shape = dims.map((dim) => messageField(1, typeof dim === "number" ? [intField(1, dim)] : dimName(dim)));
  return [bytesField(1, name), messageField(2, [messageField(1, [intField(1, type), messageField(2, shape)])])];
}

function dimName(name: string): Uint8Array[] {
  return name === "" ? [] : [bytesField(2, name)];
}
