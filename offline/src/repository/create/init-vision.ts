/**
 * Writes the six models that serve a vision-language model, including its vision encoder as ONNX. They appear when all
 * of them would load.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { exportOnnx } from "@nereid/onnx-tools/export-onnx";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { ToolError } from "@nereid/server/files/tool-error";
import { readHfConfig } from "@nereid/server/formats/hf/config";
import { openDecoder } from "../../checkpoint/open-decoder.ts";
import { findTokenizer } from "./find-tokenizer.ts";
import type { InitOptions, InitResult } from "./init-repo.ts";
import { copyAll, examine, expectRoom, filesToCopy, openStage, show, totalBytes } from "./repository-stage.ts";
import { visionConfigs } from "./vision-configs.ts";
import { type VisionModel, visionModel } from "./vision-model.ts";
import { VISION_MODELS } from "./vision-names.ts";

/** @throws ToolError: then nothing has changed */
export async function initVisionRepository(options: InitOptions): Promise<InitResult> {
  if (options.others.size > 0) {
    throw new ToolError("--set is for the templates of models that only read", { fix: "Edit the configurations" });
  }
  const model = resolve(options.modelDir);
  const repository = resolve(options.repository);
  const seeing = await describe(model);
  const { parsed, tensors } = await openDecoder(model);
  await tensors.close();
  const tokenizer = await findTokenizer(options.tokenizerDir, model);
  await expectRoom(repository, VISION_MODELS, options.replaces);
  const copies = options.copiesModel ? await filesToCopy(model, tokenizer) : new Map<string, string>();
  await requireFreeBytes(repository, await totalBytes([...copies.values()]));
  await using folder = await openStage(repository);
  await copyAll(copies, join(folder.path, "vision_llm", "1"), options);
  const inside = "../vision_llm/1";
  const places = options.copiesModel
    ? { modelDir: inside, tokenizerDir: inside, engineDir: "1" }
    : { modelDir: model, tokenizerDir: tokenizer, engineDir: model };
  const configs = visionConfigs(seeing, { ...options, ...places, width: parsed.config.hiddenSize });
  for (const name of VISION_MODELS) {
    await mkdir(join(folder.path, name, "1"), { recursive: true });
    await writeFile(join(folder.path, name, "config.pbtxt"), configs[name]);
  }
  await exportVisionEncoder(model, join(folder.path, "vision_encoder", "1"), options);
  const findings = await examine(folder.path, repository, options);
  options.signal.throwIfAborted();
  await show(folder, repository, VISION_MODELS);
  return { repository, models: VISION_MODELS, findings };
}

async function describe(model: string): Promise<VisionModel> {
  try {
    return visionModel(await readHfConfig(model));
  } catch (cause) {
    if (cause instanceof ToolError || !(cause instanceof Error)) throw cause;
    throw new ToolError(cause.message, { cause, fix: "--images needs a Hugging Face folder" });
  }
}

async function exportVisionEncoder(
  modelDir: string,
  outputDir: string,
  { reporter, signal }: InitOptions,
): Promise<void> {
  await exportOnnx({
    ...{ modelDir, outputDir, reporter, signal },
    part: "vision",
    pooling: "none",
    hasAttentionMask: false,
    isExternal: false,
    isForced: false,
  });
}
