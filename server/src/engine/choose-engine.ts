/**
 * Chooses the engine that computes a model: ours, or libllama for GGUF files of architectures, tensor types or rope scalings that
 * ours does not know. It opens headers alone.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { invalidArgument } from "../core/server-error.ts";
import { findGguf } from "../formats/gguf/find-file.ts";
import { readGgufSummary } from "../formats/gguf/gguf.ts";
import { openModelFiles } from "../formats/hf/model-files.ts";
import { parseDecoderConfig } from "../models/config/parse-decoder-config.ts";
import { expectCudaSupport } from "../models/cuda/supported.ts";
import { listWeights } from "../models/weights/weight-list.ts";
import type { EngineName } from "./engine-spec.ts";

export interface EngineChoice {
  readonly engine: Exclude<EngineName, "auto">;
  /** The folder or file for that engine. */
  readonly path: string;
  /** Why, for the log. */
  readonly reason: string;
}

/** @throws ServerError when the named engine cannot take the files; Error when a header is broken */
export async function chooseEngine(
  modelDir: string,
  name: EngineName = "auto",
  isOnGpu = false,
): Promise<EngineChoice> {
  if (name === "nereid") return { engine: "nereid", path: modelDir, reason: "the parameter 'engine' names it" };
  const gguf = await ggufAt(modelDir);
  if (name === "llama.cpp") {
    if (gguf === undefined) throw noGguf(modelDir);
    return { engine: "llama.cpp", path: gguf, reason: "the parameter 'engine' names it" };
  }
  if (gguf === undefined) return { engine: "nereid", path: modelDir, reason: "it reads files other than GGUF" };
  const refusal = await refusalOfOurs(modelDir, isOnGpu);
  if (refusal === undefined) return { engine: "nereid", path: modelDir, reason: "it knows the model" };
  await readGgufSummary(gguf); // no other engine gets a header that is not sound
  return { engine: "llama.cpp", path: gguf, reason: `engine nereid does not know the model: ${refusal}` };
}

/** Why our engine does not take a model; undefined when it does. */
export async function refusalOfOurs(modelDir: string, isOnGpu = false): Promise<string | undefined> {
  try {
    const { files, tensors } = await openModelFiles(modelDir);
    try {
      const parsed = parseDecoderConfig(files);
      if (isOnGpu) expectCudaSupport(parsed.config, parsed.weights);
      listWeights(parsed, tensors);
      return undefined;
    } finally {
      await tensors.close();
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A folder with several GGUF models beside a config.json is that of the config.json. */
async function ggufAt(modelDir: string): Promise<string | undefined> {
  const isFolderOfOurs = existsSync(join(modelDir, "config.json"));
  const found = await findGguf(modelDir).catch((error: unknown) => {
    if (isFolderOfOurs) return undefined;
    throw error;
  });
  return found?.endsWith(".gguf") === true ? found : undefined;
}

function noGguf(modelDir: string): Error {
  return invalidArgument(
    `parameter 'engine' is 'llama.cpp', which takes GGUF files, and there is none at ${modelDir}: convert the model with ` +
      "llama.cpp's convert_hf_to_gguf.py, or take engine nereid",
  );
}
