/** Writes small ONNX files, so that tests need no borrowed model. Knows just as much protobuf as that takes. */
export declare const ONNX_TYPE: {
  readonly FLOAT: 1;
  readonly UINT8: 2;
  readonly INT8: 3;
  readonly UINT16: 4;
  readonly INT16: 5;
  readonly INT32: 6;
  readonly INT64: 7;
  readonly STRING: 8;
  readonly BOOL: 9;
  readonly FLOAT16: 10;
  readonly DOUBLE: 11;
  readonly UINT32: 12;
  readonly UINT64: 13;
  readonly BFLOAT16: 16;
};
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
export declare function varint(value: number | bigint): Uint8Array;
export declare function intField(field: number, value: number | bigint): Uint8Array;
export declare function bytesField(field: number, value: Uint8Array | string): Uint8Array;
export declare function messageField(field: number, parts: readonly Uint8Array[]): Uint8Array;
/** A field 1 of a graph. `attributes` are whole fields (see `attribute`). */
export declare function node(
  operator: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes?: readonly Uint8Array[],
): Uint8Array;
/** A field 5 of a node: name and the fields of its value. */
export declare function attribute(name: string, type: number, value: readonly Uint8Array[]): Uint8Array;
export declare function tensor(name: string, type: number, dims: readonly number[], data: Uint8Array): Uint8Array;
/** A TensorProto whose bytes are in another file. */
export declare function externalTensor(
  name: string,
  type: number,
  dims: readonly number[],
  entries: Readonly<Record<string, string>>,
): Uint8Array;
export declare function graph(spec: ModelSpec): Uint8Array;
export declare function model(spec: ModelSpec): Uint8Array;
export declare function identity(type: number, dims: readonly Dim[]): Uint8Array;
/** OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1. */
export declare function addSub(type: number, dims: readonly Dim[]): Uint8Array;
/** Multiplies square matrices `count` times: slow at will, and stoppable between the products. */
export declare function matmulChain(size: number, count: number): Uint8Array;
