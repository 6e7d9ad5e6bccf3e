/** Checks a model of the backends `onnxruntime` and `tensorrt` by opening it like the server. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ModelSource } from "@nereid/server/backend/backend";
import { createOnnxBackend, createPlanBackend } from "@nereid/server/backend/onnx/onnx-backend";
import { finishModelConfig } from "@nereid/server/config/model/model-config";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { ServerError } from "@nereid/server/core/server-error";
import type { Logger } from "@nereid/server/observe/log";
import type { ExaminedModel } from "./examined-model.ts";
import { gitLfsProblem } from "./misplaced-files.ts";

export async function checkOnnx(model: ExaminedModel, config: ModelConfig, versionFolder: string): Promise<void> {
  const isPlan = config.backend === "tensorrt";
  const fileName = config.default_model_filename || (isPlan ? "model.plan" : "model.onnx");
  const file = join(versionFolder, fileName);
  if (!existsSync(file)) {
    model.add(
      "error",
      `there is no ${fileName} in the version folder`,
      isPlan ? `Build it: nereid trtexec --onnx=model.onnx --saveEngine=${file}` : `Put the model at ${file}`,
      { file: versionFolder },
    );
    return;
  }
  const pointer = gitLfsProblem(file);
  if (pointer !== undefined) {
    model.add("error", pointer.problem, pointer.fix, { file });
    return;
  }
  const backend = isPlan ? createPlanBackend() : createOnnxBackend();
  try {
    const source = sourceOf(model, config, versionFolder);
    const description = await backend.describe?.(source);
    const gpus = { ids: [], minComputeCapability: 0 };
    const settings = new Map<string, string>();
    const finished = finishModelConfig({ prepared: config, description, autoComplete: true, settings, gpus });
    model.config = finished;
    const opened = await backend.load({ ...source, config: finished });
    await opened.close();
  } catch (error) {
    const { message } = ServerError.from(error);
    if (/onnx runtime error|Protobuf|external data/i.test(message)) {
      model.add("error", message, "Export or copy the model again, with all of its data files beside it", { file });
    } else if (isPlan && message.includes("nereid trtexec")) model.add("error", message, "Run that command", { file });
    else model.addServerError(error);
  } finally {
    await backend.close();
  }
}

const SILENT: Logger = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  verbose: () => undefined,
  table: () => undefined,
};

function sourceOf(model: ExaminedModel, config: ModelConfig, versionFolder: string): ModelSource {
  const unavailable = (): never => {
    throw new ServerError("unavailable", "no other model runs here");
  };
  return {
    name: model.name,
    version: 1,
    config,
    modelFolder: model.path,
    versionFolder,
    settings: new Map(),
    log: SILENT,
    models: { infer: unavailable, signature: unavailable },
    metrics: { register: () => ({ [Symbol.dispose]: () => undefined }) },
  };
}
