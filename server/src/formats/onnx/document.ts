/**
 * An editable ONNX model in memory; fields that are not edited stay as they are. Source: ONNX IR specification and
 * onnx.proto. It knows no operator. For offline tools: the server scans models with `model.ts` without holding them.
 */
import { open } from "node:fs/promises";
import { type ProtoField, readFields, textOf, varintsOf } from "../protobuf/reader.ts";
import { type LazyBytes, messageField, type Part } from "../protobuf/writer.ts";
import { readFully } from "../tensors/read-fully.ts";
import { type ExternalDataReference, nodeParts, type OnnxNode, type OnnxTensor, tensorParts } from "./writer.ts";

export interface DocumentNode {
  readonly operator: string;
  readonly domain: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** Serialized AttributeProto bodies by name. */
  readonly attributes: ReadonlyMap<string, readonly ProtoField[]>;
  /** Names that subgraphs of this node use, such as branches and loop bodies. */
  readonly innerNames: ReadonlySet<string>;
  readonly parts: readonly Part[];
}

export interface DocumentTensor {
  readonly name: string;
  /** TensorProto.DataType. */
  readonly type: number;
  readonly dims: readonly number[];
  /** Little-endian; undefined when the bytes are external or of an unsupported type. */
  readonly data: Uint8Array | undefined;
  /** Location in an external file as the model states it, unchecked. */
  readonly external?: ExternalDataReference | undefined;
  /** Replaces `data`: bytes that are produced while writing. */
  readonly lazy?: LazyBytes | undefined;
  readonly parts: readonly Part[];
}

export interface OnnxDocument {
  readonly opset: number;
  readonly nodes: readonly DocumentNode[];
  readonly tensors: ReadonlyMap<string, DocumentTensor>;
  /** In old models also initializers, which a run may then override. */
  readonly inputs: ReadonlySet<string>;
  readonly outputs: ReadonlySet<string>;
  /** All other fields of the model and its graph. */
  readonly modelRest: readonly Uint8Array[];
  readonly graphRest: readonly Uint8Array[];
}

const MAX_BYTES: number = 2 ** 31;
/** Maximum depth of nested graphs; exporters stay below five. */
const MAX_DEPTH = 20;
const MODEL = { graph: 7, opset: 8 } as const;
const GRAPH = { node: 1, tensor: 5, input: 11, output: 12 } as const;
const ATTRIBUTE = { name: 1, graph: 6, graphs: 11 } as const;

/** @throws Error naming the file when it is no ONNX model or larger than protobuf allows */
export async function readOnnxDocument(path: string): Promise<OnnxDocument> {
  const file = await open(path, "r").catch((cause: unknown) => {
    throw new Error(`${path}: expected an ONNX file`, { cause });
  });
  try {
    const { size } = await file.stat();
    if (size > MAX_BYTES) throw new Error(`${path}: expected at most ${MAX_BYTES} bytes, got ${size}`);
    const bytes = new Uint8Array(size);
    await readFully(file, bytes, 0, path);
    return parseOnnxDocument(bytes);
  } finally {
    await file.close();
  }
}

export function parseOnnxDocument(bytes: Uint8Array): OnnxDocument {
  const fields = readFields(bytes);
  const graph = fields.find(({ number }) => number === MODEL.graph);
  if (graph === undefined) throw new Error("no ONNX model: it has no graph");
  const inGraph = readFields(graph.bytes);
  const tensors = inGraph.filter(({ number }) => number === GRAPH.tensor).map((field) => parseTensor(field.bytes));
  return {
    opset: opsetOf(fields),
    nodes: inGraph.filter(({ number }) => number === GRAPH.node).map((field) => parseNode(field.bytes, 0)),
    tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])),
    inputs: new Set(firstTexts(inGraph, GRAPH.input)),
    outputs: new Set(firstTexts(inGraph, GRAPH.output)),
    modelRest: fields.filter(({ number }) => number !== MODEL.graph).map(({ raw }) => raw),
    graphRest: inGraph.filter(({ number }) => number !== GRAPH.node && number !== GRAPH.tensor).map(({ raw }) => raw),
  };
}

export function documentParts({ modelRest, graphRest, nodes, tensors }: OnnxDocument): Part[] {
  return [
    ...modelRest,
    ...messageField(MODEL.graph, [
      ...nodes.flatMap(({ parts }) => messageField(GRAPH.node, parts)),
      ...graphRest,
      ...[...tensors.values()].flatMap(({ parts }) => messageField(GRAPH.tensor, parts)),
    ]),
  ];
}

export function newNode(node: OnnxNode): DocumentNode {
  const { operator, domain = "", name, inputs, outputs } = node;
  const parts = nodeParts(node);
  return { operator, domain, name, inputs, outputs, attributes: new Map(), innerNames: new Set(), parts };
}

export function newTensor(tensor: OnnxTensor & { readonly data: Part }): DocumentTensor {
  const { data } = tensor;
  const isHere = data instanceof Uint8Array;
  return { ...tensor, data: isHere ? data : undefined, lazy: isHere ? undefined : data, parts: tensorParts(tensor) };
}

/** Names that nodes at any depth use, and the outputs of the model. */
export function usedNames({ nodes, outputs }: Pick<OnnxDocument, "nodes" | "outputs">): Set<string> {
  const used = new Set(outputs);
  for (const { inputs, innerNames } of nodes) {
    for (const name of inputs) used.add(name);
    for (const name of innerNames) used.add(name);
  }
  return used;
}

function opsetOf(fields: readonly ProtoField[]): number {
  for (const { bytes } of fields.filter(({ number }) => number === MODEL.opset)) {
    if (firstText(bytes, 1) === "") return readFields(bytes).find(({ number }) => number === 2)?.value ?? 0;
  }
  return 0;
}

function parseNode(body: Uint8Array, depth: number): DocumentNode {
  const fields = readFields(body);
  const texts = (wanted: number): string[] => fields.filter(({ number }) => number === wanted).map(textOf);
  const attributes = fields.filter(({ number }) => number === 5).map(({ bytes }) => readFields(bytes));
  const byName = attributes.map((each) => [textOf(named(each)), each] as const);
  const innerNames = new Set(attributes.flatMap((each) => graphNames(each, depth)));
  return {
    operator: texts(4)[0] ?? "",
    domain: texts(7)[0] ?? "",
    name: texts(3)[0] ?? "",
    inputs: texts(1),
    outputs: texts(2),
    attributes: new Map(byName),
    innerNames,
    parts: [body],
  };
}

const NAMELESS: ProtoField = { number: ATTRIBUTE.name, value: 0, bytes: new Uint8Array(0), raw: new Uint8Array(0) };

function named(attribute: readonly ProtoField[]): ProtoField {
  return attribute.find(({ number }) => number === ATTRIBUTE.name) ?? NAMELESS;
}

function graphNames(attribute: readonly ProtoField[], depth: number): string[] {
  const graphs = attribute.filter(({ number }) => number === ATTRIBUTE.graph || number === ATTRIBUTE.graphs);
  if (graphs.length > 0 && depth === MAX_DEPTH)
    throw new Error(`no ONNX model: more than ${MAX_DEPTH} graphs inside each other`);
  return graphs.flatMap(({ bytes }) => {
    const inGraph = readFields(bytes);
    const nodes = inGraph
      .filter(({ number }) => number === GRAPH.node)
      .map((field) => parseNode(field.bytes, depth + 1));
    const outputs = firstTexts(inGraph, GRAPH.output);
    return [...outputs, ...nodes.flatMap(({ inputs, innerNames }) => [...inputs, ...innerNames])];
  });
}

function parseTensor(body: Uint8Array): DocumentTensor {
  const fields = readFields(body);
  const isExternal = fields.some(({ number, value }) => number === 13 || (number === 14 && value !== 0));
  const raw = fields.findLast(({ number }) => number === 9)?.bytes;
  const floats = fields.filter(({ number }) => number === 4).map(({ bytes }) => bytes);
  const listed = floats.length > 0 ? new Uint8Array(Buffer.concat(floats)) : undefined;
  return {
    name: firstText(body, 8),
    type: fields.findLast(({ number }) => number === 2)?.value ?? 0,
    dims: varintsOf(fields, 1),
    data: isExternal ? undefined : (raw ?? listed),
    ...(isExternal ? { external: placeOf(fields) } : {}),
    parts: [body],
  };
}

function placeOf(fields: readonly ProtoField[]): ExternalDataReference {
  const entries = fields.filter(({ number }) => number === 13).map(({ bytes }) => readFields(bytes));
  const text = (entry: readonly ProtoField[], wanted: number): string =>
    entry.filter(({ number }) => number === wanted).map(textOf)[0] ?? "";
  const values = new Map(entries.map((entry) => [text(entry, 1), text(entry, 2)]));
  return {
    location: values.get("location") ?? "",
    offset: Number(values.get("offset") ?? 0),
    length: Number(values.get("length") ?? -1),
  };
}

function firstText(body: Uint8Array, wanted: number): string {
  const field = readFields(body).find(({ number }) => number === wanted);
  return field === undefined ? "" : textOf(field);
}

/** Names of inputs or outputs. */
function firstTexts(inGraph: readonly ProtoField[], wanted: number): string[] {
  return inGraph.filter(({ number }) => number === wanted).map(({ bytes }) => firstText(bytes, 1));
}
