/** Opens the files of a decoder: headers and configuration, and no weight. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { type ModelFiles, openModelFiles } from "@nereid/server/formats/hf/model-files";
import { type ParsedDecoder, parseDecoderConfig } from "@nereid/server/models/config/parse-decoder-config";

export interface OpenedDecoder extends ModelFiles {
  /** The folder's own config.json, if any. */
  readonly source: unknown;
  readonly parsed: ParsedDecoder;
}

/** @throws ToolError naming what the files lack */
export async function openDecoder(modelDir: string): Promise<OpenedDecoder> {
  const model = await openModelFiles(modelDir).catch((cause: unknown) => {
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  });
  try {
    return { ...model, parsed: parseDecoderConfig(model.files), source: await ownConfig(modelDir) };
  } catch (cause) {
    await model.tensors.close();
    throw new ToolError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

async function ownConfig(modelDir: string): Promise<unknown> {
  return readFile(join(modelDir, "config.json"), "utf8").then(
    (text) => JSON.parse(text) as unknown,
    () => undefined,
  );
}
