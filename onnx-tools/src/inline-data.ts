/** Takes weights that lie beside a model into it: what is worked on afterwards is one file. It knows no operator. */

import { ToolError } from "@nereid/server/files/tool-error";
import { documentParts } from "@nereid/server/formats/onnx/document";
import { checkExternalData } from "@nereid/server/formats/onnx/external-data";
import { readExternalData } from "@nereid/server/formats/onnx/model";
import { readDocument, writeModel } from "./model-files.ts";

/** The model itself when all of it is in one file already; else a copy at the place that `scratch` gives. */
export async function inlineData(path: string, scratch: () => string, signal: AbortSignal): Promise<string> {
  const references = await checkedReferences(path);
  if (references.length === 0) return path;
  const copy = scratch();
  await writeModel(copy, documentParts(await readDocument(path)), signal);
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
