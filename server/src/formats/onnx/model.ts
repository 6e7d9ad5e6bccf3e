/**
 * Scans an ONNX file for references to external data in every place that can hold a tensor. Source: onnx.proto. Covers
 * initializers, sparse tensors, attributes, subgraphs, functions and training graphs. Untrusted protobuf is streamed,
 * not held.
 */
import { open } from "node:fs/promises";
import { ByteWindow } from "./window.ts";

/** Location of external data as the tensor states it, unchecked. */
export interface ExternalData {
  readonly tensor: string;
  readonly entries: readonly (readonly [key: string, value: string])[];
}

export class OnnxFormatError extends Error {
  constructor(at: number, what: string) {
    super(`no ONNX model: ${what} at byte ${at}`);
    this.name = "OnnxFormatError";
  }
}

/** Maximum message nesting: exporters stay below ten, protobuf's own readers stop at 100. */
const MAX_DEPTH = 100;
/** A name or path; file systems stop at 4096 bytes. */
const MAX_TEXT_BYTES = 65_536;
/** Maximum number of external tensors; the largest known models have some ten thousand. */
const MAX_EXTERNAL_TENSORS = 1_000_000;

/** Message types on the way to a tensor. */
type Kind = "model" | "graph" | "node" | "attribute" | "tensor" | "sparse" | "function" | "training";

/** Fields that lead to tensors; all others are skipped. */
const CHILDREN: Readonly<Record<Kind, ReadonlyMap<number, Kind>>> = {
  model: new Map<number, Kind>([
    [7, "graph"],
    [20, "training"],
    [25, "function"],
  ]),
  graph: new Map<number, Kind>([
    [1, "node"],
    [5, "tensor"],
    [15, "sparse"],
  ]),
  node: new Map<number, Kind>([[5, "attribute"]]),
  attribute: new Map<number, Kind>([
    [5, "tensor"],
    [6, "graph"],
    [10, "tensor"],
    [11, "graph"],
    [22, "sparse"],
    [23, "sparse"],
  ]),
  tensor: new Map(),
  sparse: new Map<number, Kind>([
    [1, "tensor"],
    [2, "tensor"],
  ]),
  function: new Map<number, Kind>([
    [7, "node"],
    [11, "attribute"],
  ]),
  training: new Map<number, Kind>([
    [1, "graph"],
    [2, "graph"],
  ]),
};

const TENSOR_NAME = 8;
const TENSOR_EXTERNAL_DATA = 13;
const TENSOR_DATA_LOCATION = 14;
const TAG_LIMIT: number = 2 ** 32;
const WIRE_VARINT = 0;
const WIRE_FIXED64 = 1;
const WIRE_BYTES = 2;
const WIRE_FIXED32 = 5;

/** @throws OnnxFormatError when the bytes are no protobuf of that shape */
export async function readExternalData(path: string): Promise<ExternalData[]> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    return await new Walker(new ByteWindow(file, size)).walk(size);
  } finally {
    await file.close();
  }
}

interface OpenMessage {
  readonly kind: Kind;
  readonly end: number;
  /** Key and value fields of a TensorProto.external_data entry. */
  name: string;
  isExternal: boolean;
  readonly entries: (readonly [string, string])[];
}

class Walker {
  readonly #bytes: ByteWindow;
  readonly #open: OpenMessage[] = [];
  readonly #found: ExternalData[] = [];

  constructor(bytes: ByteWindow) {
    this.#bytes = bytes;
  }

  async walk(size: number): Promise<ExternalData[]> {
    this.#enter("model", size);
    for (;;) {
      const message = this.#open.at(-1);
      if (message === undefined) return this.#found;
      if (this.#bytes.position === message.end) this.#leave(message);
      else await this.#field(message);
    }
  }

  #enter(kind: Kind, end: number): void {
    if (this.#open.length === MAX_DEPTH) throw this.#wrong(`more than ${MAX_DEPTH} messages inside each other`);
    this.#open.push({ kind, end, name: "", isExternal: false, entries: [] });
  }

  #leave({ kind, name, isExternal, entries }: OpenMessage): void {
    this.#open.pop();
    if (kind !== "tensor" || (!isExternal && entries.length === 0)) return;
    if (this.#found.length === MAX_EXTERNAL_TENSORS) {
      throw this.#wrong(`more than ${MAX_EXTERNAL_TENSORS} tensors with external data`);
    }
    this.#found.push({ tensor: name, entries });
  }

  async #field(message: OpenMessage): Promise<void> {
    const tag = await this.#varint(message.end);
    const field = Math.floor(tag / 8);
    const wire = tag % 8;
    // Other readers cut a tag to 32 bits, so a field skipped here could be a graph to them.
    if (field === 0 || tag >= TAG_LIMIT) throw this.#wrong(`field number ${field}`);
    if (wire === WIRE_BYTES) await this.#bytesField(message, field);
    else if (wire === WIRE_VARINT) await this.#varintField(message, field);
    else if (wire === WIRE_FIXED64) this.#skip(8, message.end);
    else if (wire === WIRE_FIXED32) this.#skip(4, message.end);
    else throw this.#wrong(`wire type ${wire}`);
  }

  async #bytesField(message: OpenMessage, field: number): Promise<void> {
    const length = await this.#varint(message.end);
    if (length > message.end - this.#bytes.position)
      throw this.#wrong(`length ${length} beyond the end of its message`);
    const child = CHILDREN[message.kind].get(field);
    if (child !== undefined) this.#enter(child, this.#bytes.position + length);
    else if (message.kind === "tensor" && field === TENSOR_NAME) message.name = await this.#text(length);
    else if (message.kind === "tensor" && field === TENSOR_EXTERNAL_DATA)
      message.entries.push(await this.#entry(length));
    else this.#bytes.position += length;
  }

  async #varintField(message: OpenMessage, field: number): Promise<void> {
    const value = await this.#varint(message.end);
    // Any value but 0 counts as external: readers treat unknown values differently.
    if (message.kind === "tensor" && field === TENSOR_DATA_LOCATION) message.isExternal = value !== 0;
  }

  /** A key and a value in any order. The last of repeated fields counts, as protobuf requires. */
  async #entry(length: number): Promise<readonly [string, string]> {
    const end = this.#bytes.position + length;
    const pair: [string, string] = ["", ""];
    while (this.#bytes.position < end) {
      const tag = await this.#varint(end);
      const size = await this.#varint(end);
      if (tag % 8 !== WIRE_BYTES || tag >= TAG_LIMIT || size > end - this.#bytes.position)
        throw this.#wrong("broken external_data entry");
      const field = Math.floor(tag / 8);
      if (field === 1) pair[0] = await this.#text(size);
      else if (field === 2) pair[1] = await this.#text(size);
      else this.#bytes.position += size;
    }
    return pair;
  }

  async #text(length: number): Promise<string> {
    if (length > MAX_TEXT_BYTES) throw this.#wrong(`a text of ${length} bytes, more than ${MAX_TEXT_BYTES}`);
    const bytes = await this.#bytes.take(length);
    return bytes.toString("utf8");
  }

  /** Values beyond safe integers become too large for every length check, as intended. */
  async #varint(end: number): Promise<number> {
    let value = 0;
    let scale = 1;
    for (let index = 0; index < 10; index++) {
      if (this.#bytes.position >= end) throw this.#wrong("a number cut off by the end of its message");
      if (!this.#bytes.hasByte()) await this.#bytes.refill();
      const byte = this.#bytes.byte();
      value += (byte % 128) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
    throw this.#wrong("a number of more than ten bytes");
  }

  #skip(length: number, end: number): void {
    if (length > end - this.#bytes.position) throw this.#wrong("a value cut off by the end of its message");
    this.#bytes.position += length;
  }

  #wrong(what: string): OnnxFormatError {
    return new OnnxFormatError(this.#bytes.position, what);
  }
}
