/** Reads and writes whole ONNX models for the tools, with external data for large ones (ONNX, "External Data"). */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import {
  type DocumentTensor,
  documentParts,
  type OnnxDocument,
  readOnnxDocument,
} from "@nereid/server/formats/onnx/document";
import { tensorParts } from "@nereid/server/formats/onnx/writer";
import { type Part, partsBytes, writeParts } from "@nereid/server/formats/protobuf/writer";

/** @throws ToolError when it is no ONNX model */
export async function readOnnxFile(path: string): Promise<OnnxDocument> {
  const document = await readOnnxDocument(path).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  const folder = dirname(path);
  const tensors = [...document.tensors].map(
    ([name, tensor]) => [name, tensor.external === undefined ? tensor : new FileTensor(tensor, folder)] as const,
  );
  return { ...document, tensors: new Map(tensors) };
}

/** An external tensor, read on demand: only one of them is in memory at a time. */
class FileTensor implements DocumentTensor {
  readonly name: string;
  readonly type: number;
  readonly dims: readonly number[];
  readonly lazy: NonNullable<DocumentTensor["lazy"]>;
  readonly parts: readonly Part[];
  readonly #path: string;
  readonly #offset: number;

  /** Its location was checked when the model was opened. */
  constructor({ name, type, dims, external }: DocumentTensor, folder: string) {
    this.name = name;
    this.type = type;
    this.dims = dims;
    this.#path = join(folder, external?.location ?? "");
    this.#offset = external?.offset ?? 0;
    const length = external?.length ?? -1;
    // Without a length it extends to the end of the file.
    const byteLength = length >= 0 ? length : statSync(this.#path).size - this.#offset;
    this.lazy = { byteLength, load: () => Promise.resolve(this.data) };
    this.parts = tensorParts({ name, type, dims, data: this.lazy });
  }

  get data(): Uint8Array {
    const bytes = new Uint8Array(this.lazy.byteLength);
    const file = openSync(this.#path, "r");
    try {
      for (let done = 0; done < bytes.length; ) {
        const count = readSync(file, bytes, done, bytes.length - done, this.#offset + done);
        if (count === 0) throw new Error(`${this.#path}: expected ${bytes.length} bytes, got ${done}`);
        done += count;
      }
    } finally {
      closeSync(file);
    }
    return bytes;
  }
}

/** Into a new file. */
export async function writeModel(path: string, parts: readonly Part[], signal: AbortSignal): Promise<void> {
  const file = await open(path, "wx");
  await writeParts(file, parts, { signal }).finally(() => file.close());
}

export interface ModelOutputFiles {
  readonly path: string;
  /** External data file, for models larger than `maxBytes`. */
  readonly dataPath: string;
  readonly maxBytes: number;
  /** Bytes to write before the model's own fields. */
  readonly front?: readonly Part[];
}

/** Returns the total bytes written. */
export async function writeDocument(
  document: OnnxDocument,
  place: ModelOutputFiles,
  signal: AbortSignal,
): Promise<number> {
  const { path, dataPath, maxBytes, front = [] } = place;
  const whole = [...front, ...documentParts(document)];
  if (partsBytes(whole) <= maxBytes) {
    await writeModel(path, whole, signal);
    return partsBytes(whole);
  }
  const { tensors, data } = moveOut(document.tensors, basename(dataPath));
  await writeModel(dataPath, data, signal);
  const file = await open(dataPath, "r");
  await file.sync().finally(() => file.close());
  const parts = [...front, ...documentParts({ ...document, tensors })];
  await writeModel(path, parts, signal);
  return partsBytes(parts) + partsBytes(data);
}

/** Smaller tensors stay inline, because shape inference needs them before external files are opened. */
const MIN_MOVED_BYTES = 1024;
/** Page alignment: runtimes that map the file need no copy. */
const ALIGNMENT = 4096;

function moveOut(
  all: ReadonlyMap<string, DocumentTensor>,
  location: string,
): { readonly tensors: ReadonlyMap<string, DocumentTensor>; readonly data: readonly Part[] } {
  const data: Part[] = [];
  let offset = 0;
  const moved = [...all].map(([key, tensor]): [string, DocumentTensor] => {
    const content = tensor.lazy ?? tensor.data;
    if (content === undefined || content.byteLength < MIN_MOVED_BYTES) return [key, tensor];
    const { name, type, dims } = tensor;
    const external = { location, offset, length: content.byteLength };
    const padding = (ALIGNMENT - (content.byteLength % ALIGNMENT)) % ALIGNMENT;
    data.push(content, new Uint8Array(padding));
    offset += content.byteLength + padding;
    return [
      key,
      { name, type, dims, data: undefined, external, parts: tensorParts({ name, type, dims, data: external }) },
    ];
  });
  return { tensors: new Map(moved), data };
}
