/** `nereid init-repo`: from a model's folder to a repository that serves it, in one step. */

import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { requirePackage } from "@nereid/server/packages/optional-package";
import { copyTemplates, type InitOptions, initRepository } from "../repository/create/init-repo.ts";
import { migrateRepository } from "../repository/create/migrate-repo.ts";
import { parseTemplateValues } from "../template/template-values.ts";

const DEFAULT_BATCH_SIZE = 64;
const MAX_BATCH_SIZE = 4096;

const CURL_IMAGE = `curl -X POST localhost:8000/v2/models/vlm/generate -d @- <<< "{\\"image\\": \\"$(base64 -w0 image.png)\\", \\"text_input\\": \\"What is shown in this image?\\", \\"max_tokens\\": 20}"`;
const CURL = `curl -X POST localhost:8000/v2/models/ensemble/generate -d '{"text_input": "What is machine learning?", "max_tokens": 20}'`;

const FLAGS = {
  model: {
    type: "string",
    value: "DIR",
    aliases: ["engine", "engine_dir", "model_dir"],
    summary: "a Hugging Face folder, a checkpoint, an engine, or a GGUF file",
  },
  repo: {
    type: "string",
    required: true,
    value: "DIR",
    aliases: ["model_repo", "model_repository"],
    summary: "the model repository to write",
  },
  tokenizer: {
    type: "string",
    value: "DIR",
    aliases: ["tokenizer_dir"],
    summary: "the folder with tokenizer.json, if it is not the model's",
  },
  max_batch_size: {
    type: "integer",
    min: 1,
    max: MAX_BATCH_SIZE,
    default: DEFAULT_BATCH_SIZE,
    summary: "requests that run at the same time",
  },
  no_streaming: { type: "switch", summary: "whole answers only (decoupled_mode:False)" },
  set: {
    type: "string",
    value: "KEY:VALUE,...",
    summary: "other placeholders of the templates, as for fill-template",
  },
  copy: { type: "switch", summary: "copy model and tokenizer into the repository, so that it can be moved as a whole" },
  images: {
    type: "switch",
    aliases: ["pictures"],
    summary:
      "a vision-language model (LLaVA, Qwen2-VL): its vision encoder as ONNX, and models that take images with a question",
  },
  from: {
    type: "string",
    value: "DIR",
    summary: "an inflight_batcher_llm repository of TensorRT-LLM: copy its models and settings, with this model",
  },
  templates: { type: "switch", summary: "write the models unfilled, for fill-template or sed; needs no --model" },
  force: { type: "switch", short: "f", summary: "replace models of the same names" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "init-repo",
  description:
    "Writes the models preprocessing, tensorrt_llm, postprocessing, tensorrt_llm_bls and ensemble for one language model, filled in and examined. They appear only when all of them would load.",
  flags: FLAGS,
  examples: [
    "nereid init-repo --model models/gpt2 --repo repo && nereid serve --model-repository=repo",
    "nereid init-repo --model models/tiny --from inflight_repo --repo repo",
    "nereid init-repo --model models/llava-v1.6-mistral-7b-hf --images --repo repo",
  ],
};

/** The vision encoder is exported by a package of its own. */
async function loadVisionInit(): Promise<typeof initRepository> {
  const load = () => import("../repository/create/init-vision.ts");
  return (await requirePackage("@nereid/onnx-tools", "init-repo --images", load)).initVisionRepository;
}

interface Kind {
  readonly from: string | undefined;
  readonly images: boolean;
  readonly copy: boolean;
}

/** @throws UsageError for flags that exclude each other */
async function chooseInit({ from, images, copy }: Kind): Promise<typeof initRepository> {
  if (from === undefined) return images ? await loadVisionInit() : initRepository;
  if (images || copy) {
    const flag = images ? "--images" : "--copy";
    throw new UsageError(`${flag} does not go with --from, which keeps the repository's own models`);
  }
  return (options: InitOptions) => migrateRepository(options, from);
}

export async function initRepoCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    if (values.templates) {
      const { repository, models } = await copyTemplates(values.repo, values.force);
      const next = `nereid fill-template --list ${repository}`;
      reporter.result(`${repository}: ${models.join(", ")}, to be filled in\nNext:\n  ${next}`, {
        repository,
        models,
        next,
      });
      return;
    }
    if (values.model === undefined)
      throw new UsageError("--model is missing: which model to serve, or --templates for unfilled ones");
    const init = await chooseInit(values);
    const { repository, models, findings } = await init({
      modelDir: values.model,
      tokenizerDir: values.tokenizer,
      repository: values.repo,
      maxBatchSize: values.max_batch_size,
      isDecoupled: !values.no_streaming,
      others: values.set === undefined ? new Map() : parseTemplateValues(values.set, () => false).values,
      copiesModel: values.copy,
      replaces: values.force,
      reporter,
      signal,
    });
    for (const { severity, problem } of findings) if (severity === "warning") reporter.warn(problem);
    const next = `nereid serve --model-repository=${repository}`;
    const request = values.images ? CURL_IMAGE : CURL;
    reporter.result(`${repository}: ${models.join(", ")}\nNext:\n  ${next}\n  ${request}`, {
      repository,
      models,
      next,
    });
  });
}
