/** Limits and names of the ONNX files that are written here. */
import { readdir } from "node:fs/promises";

/** Protobuf ends at 2 GiB; weights of a larger model lie in a file of their own. */
export const MAX_MODEL_BYTES: number = 2 ** 31 - 2 ** 20;

const OWN_FILES = /^(text_|vision_)?model\.onnx(_data)?$/;

/** What an earlier export wrote may be replaced, anything else may not. */
export async function existingOnnxOutput(folder: string): Promise<"replace" | "refuse"> {
  const names = await readdir(folder).catch(() => []);
  return names.every((name) => OWN_FILES.test(name)) ? "replace" : "refuse";
}
