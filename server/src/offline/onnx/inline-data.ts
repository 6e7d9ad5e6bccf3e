/** Takes weights that lie beside a model into it: what is worked on afterwards is one file. It knows no operator. */
import { open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type DocumentTensor, documentParts } from "../../formats/onnx-document.ts";
import { checkExternalData } from "../../formats/onnx-external-data.ts";
import { readExternalData } from "../../formats/onnx-model.ts";
import { tensorParts } from "../../formats/onnx-writer.ts";
import type { LazyBytes } from "../../formats/protobuf-writer.ts";
import { readFully } from "../../formats/read-fully.ts";
import { ToolError } from "../tool-error.ts";
import { readDocument, writeModel } from "./model-files.ts";

/** The model itself when all of it is in one file already; else a copy at the place that `scratch` gives. */
export async function inlineData(path: string, scratch: () => string, signal: AbortSignal): Promise<string> {
  const references = await checkedReferences(path);
  if (references.length === 0) return path;
  const entries = new Map(references.map(({ tensor, entries: found }) => [tensor, new Map(found)]));
  const document = await readDocument(path);
  const tensors = new Map<string, DocumentTensor>();
  for (const [name, tensor] of document.tensors) {
    const found = tensor.data === undefined ? entries.get(name) : undefined;
    if (found === undefined) {
      tensors.set(name, tensor);
      continue;
    }
    const data = await fileBytes(join(dirname(path), found.get("location") ?? ""), found);
    const { type, dims } = tensor;
    tensors.set(name, { ...tensor, parts: tensorParts({ name, type, dims, data }) });
  }
  const copy = scratch();
  await writeModel(copy, documentParts({ ...document, tensors }), signal);
  return copy;
}

async function checkedReferences(path: string): ReturnType<typeof readExternalData> {
  try {
    await checkExternalData(path);
    return await readExternalData(path);
  } catch (cause) {
    throw new ToolError(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** Numbers have been checked. */
async function fileBytes(path: string, entries: ReadonlyMap<string, string>): Promise<LazyBytes> {
  const offset = Number(entries.get("offset") ?? 0);
  const length = entries.get("length");
  const byteLength = length === undefined ? (await stat(path)).size - offset : Number(length);
  return {
    byteLength,
    async load() {
      const bytes = new Uint8Array(byteLength);
      const file = await open(path, "r");
      await readFully(file, bytes, offset, path).finally(() => file.close());
      return bytes;
    },
  };
}
