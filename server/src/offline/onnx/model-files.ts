/** Reads and writes whole models for the tools, with errors that a user can act on. */
import { open } from "node:fs/promises";
import { type OnnxDocument, readOnnxDocument } from "../../formats/onnx-document.ts";
import { type Part, writeParts } from "../../formats/protobuf-writer.ts";
import { ToolError } from "../tool-error.ts";
import { MAX_MODEL_BYTES } from "./onnx-output.ts";

export function tooLarge(path: string, numBytes: number): ToolError {
  return new ToolError(`${path}: ${numBytes} bytes with its weights, expected at most ${MAX_MODEL_BYTES}`, {
    fix: "Serve the model as it is, with platform onnxruntime_onnx: that has no limit",
  });
}

/** @throws ToolError when it is no ONNX model */
export async function readDocument(path: string): Promise<OnnxDocument> {
  return readOnnxDocument(path).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
}

/** Into a new file. */
export async function writeModel(path: string, parts: readonly Part[], signal: AbortSignal): Promise<void> {
  const file = await open(path, "wx");
  await writeParts(file, parts, { signal }).finally(() => file.close());
}
