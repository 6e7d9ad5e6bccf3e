/**
 * Serializes ONNX nodes, tensors and models as protobuf. Source: onnx.proto and the ONNX IR specification. It validates
 * nothing: the graph builder does.
 */
import { floatField, messageField, type Part, partsBytes, textField, varintField } from "../protobuf/writer.ts";

/** TensorProto.DataType codes. */
export const ONNX_TYPES = { FLOAT: 1, UINT8: 2, INT8: 3, INT32: 6, INT64: 7, BOOL: 9, FLOAT16: 10 } as const;
export type OnnxTypeCode = (typeof ONNX_TYPES)[keyof typeof ONNX_TYPES];

export type OnnxAttribute =
  | { readonly int: number }
  | { readonly float: number }
  | { readonly ints: readonly number[] }
  | { readonly text: string }
  | { readonly tensor: OnnxTensor };

export interface OnnxNode {
  readonly operator: string;
  /** Empty: the default ONNX operator set. */
  readonly domain?: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes?: Readonly<Record<string, OnnxAttribute>>;
}

export interface OnnxTensor {
  readonly name: string;
  /** TensorProto.DataType: one of `ONNX_TYPES`, or a code from a model that was read. */
  readonly type: number;
  readonly dims: readonly number[];
  /** Little-endian bytes, or their location in another file. */
  readonly data: Part | ExternalDataReference;
}

/** Location in an external file beside the model. */
export interface ExternalDataReference {
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

/** An input or output. A number is a fixed dimension, a string names a dynamic one. */
export interface OnnxValue {
  readonly name: string;
  readonly type: OnnxTypeCode;
  readonly dims: readonly (number | string)[];
}

export interface OnnxModelDraft {
  readonly irVersion: number;
  readonly opset: number;
  readonly producer: string;
  readonly graphName: string;
  readonly nodes: readonly OnnxNode[];
  readonly tensors: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

const ATTRIBUTE_KINDS = { FLOAT: 1, INT: 2, STRING: 3, TENSOR: 4, INTS: 7 } as const;
const DATA_ELSEWHERE = 1;

export function modelParts(draft: OnnxModelDraft): Part[] {
  const graph = [
    ...draft.nodes.flatMap((node) => messageField(1, nodeParts(node))),
    textField(2, draft.graphName),
    ...draft.tensors.flatMap((tensor) => messageField(5, tensorParts(tensor))),
    ...draft.inputs.flatMap((value) => messageField(11, valueParts(value))),
    ...draft.outputs.flatMap((value) => messageField(12, valueParts(value))),
  ];
  return [
    varintField(1, draft.irVersion),
    textField(2, draft.producer),
    ...messageField(8, [textField(1, ""), varintField(2, draft.opset)]),
    ...messageField(7, graph),
  ];
}

/** The body of a NodeProto. */
export function nodeParts({ operator, domain = "", name, inputs, outputs, attributes = {} }: OnnxNode): Part[] {
  return [
    ...inputs.map((input) => textField(1, input)),
    ...outputs.map((output) => textField(2, output)),
    textField(3, name),
    textField(4, operator),
    ...Object.entries(attributes).flatMap(([key, value]) => messageField(5, attributeParts(key, value))),
    ...(domain === "" ? [] : [textField(7, domain)]),
  ];
}

/** The body of a TensorProto. */
export function tensorParts({ name, type, dims, data }: OnnxTensor): Part[] {
  const head = [...dims.map((size) => varintField(1, size)), varintField(2, type), textField(8, name)];
  if (!("location" in data)) return [...head, ...messageField(9, [data])];
  const entries = Object.entries({ location: data.location, offset: data.offset, length: data.length });
  const external = entries.flatMap(([key, value]) => messageField(13, [textField(1, key), textField(2, `${value}`)]));
  return [...head, ...external, varintField(14, DATA_ELSEWHERE)];
}

/** The body of a StringStringEntryProto, used by metadata_props. */
export function entryParts(key: string, value: string): Part[] {
  return [textField(1, key), textField(2, value)];
}

/** Bytes that a tensor owns, inline or external. */
export function tensorDataBytes({ data }: OnnxTensor): number {
  return "location" in data ? data.length : partsBytes([data]);
}

function attributeParts(name: string, value: OnnxAttribute): Part[] {
  const [kind, parts] = attributeValue(value);
  return [textField(1, name), ...parts, varintField(20, kind)];
}

function attributeValue(value: OnnxAttribute): [number, Part[]] {
  if ("int" in value) return [ATTRIBUTE_KINDS.INT, [varintField(3, value.int)]];
  if ("float" in value) return [ATTRIBUTE_KINDS.FLOAT, [floatField(2, value.float)]];
  if ("ints" in value) return [ATTRIBUTE_KINDS.INTS, value.ints.map((each) => varintField(8, each))];
  if ("text" in value) return [ATTRIBUTE_KINDS.STRING, [textField(4, value.text)]];
  return [ATTRIBUTE_KINDS.TENSOR, messageField(5, tensorParts(value.tensor))];
}

function valueParts({ name, type, dims }: OnnxValue): Part[] {
  const shape = dims.flatMap((size) =>
    messageField(1, [typeof size === "number" ? varintField(1, size) : textField(2, size)]),
  );
  const tensorType = [varintField(1, type), ...messageField(2, shape)];
  return [textField(1, name), ...messageField(2, messageField(1, tensorType))];
}
