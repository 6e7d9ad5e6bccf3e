/**
 * Moves external data into the model file, so that further steps handle one file (ONNX, "External Data"). It knows no
 * operator.
 */

import { ToolError } from "@nereid/server/files/tool-error";
import { documentParts } from "@nereid/server/formats/onnx/document";
import { checkExternalData } from "@nereid/server/formats/onnx/external-data";
import { readExternalData } from "@nereid/server/formats/onnx/model";
import { readOnnxFile, writeModel } from "./model-files.ts";

/** The model itself when it has no external data; else a copy at the path from `scratch`. */
export async function inlineData(path: string, scratch: () => string, signal: AbortSignal): Promise<string> {
  const references = await checkedReferences(path);
  if (references.length === 0) return path;
  const copy = scratch();
  await writeModel(copy, documentParts(await readOnnxFile(path)), signal);
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
