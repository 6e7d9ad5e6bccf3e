/** Model repositories of the shipped templates, filled in as people do, around the language model of the examples. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fillTemplate } from "../../offline/src/template/fill-template.ts";
import { createModelRepository, type ModelRepository } from "./model-repository.ts";

export const TEMPLATES: string = fileURLToPath(
  new URL("../../offline/templates/inflight_batcher_llm", import.meta.url),
);
export const LANGUAGE_MODEL: string = fileURLToPath(
  new URL("../../examples/nereid-tiny/language_model", import.meta.url),
);

/** By model, in the form of the command line: what the recipe of TensorRT-LLM's backend fills in. */
export const RECIPE: Readonly<Record<string, string>> = {
  ensemble: "triton_max_batch_size:4,logits_datatype:TYPE_FP32",
  preprocessing: `tokenizer_dir:${LANGUAGE_MODEL},triton_max_batch_size:4,preprocessing_instance_count:1`,
  tensorrt_llm:
    "triton_backend:tensorrtllm,triton_max_batch_size:4,decoupled_mode:True," +
    `engine_dir:${LANGUAGE_MODEL},max_queue_delay_microseconds:0,batching_strategy:inflight_fused_batching,` +
    "max_queue_size:0,encoder_input_features_data_type:TYPE_FP16,logits_datatype:TYPE_FP32",
  postprocessing: `tokenizer_dir:${LANGUAGE_MODEL},triton_max_batch_size:4,postprocessing_instance_count:1`,
  tensorrt_llm_bls: "triton_max_batch_size:4,decoupled_mode:True,bls_instance_count:1,logits_datatype:TYPE_FP32",
};

export function templateOf(model: string): string {
  return readFileSync(join(TEMPLATES, model, "config.pbtxt"), "utf8");
}

/** The five models; `more` is added to the recipe of each model by name, `change` has the last word. The caller disposes of it. */
export async function createPipeline(
  more: Readonly<Record<string, string>> = {},
  change: (text: string, model: string) => string = (text) => text,
): Promise<ModelRepository> {
  const repository = await createModelRepository({});
  for (const model of readdirSync(TEMPLATES)) {
    const values = [RECIPE[model] ?? "", more[model] ?? ""].filter((text) => text !== "").join(",");
    mkdirSync(join(repository.path, model, "1"), { recursive: true });
    const { text } = fillTemplate(templateOf(model), values);
    writeFileSync(join(repository.path, model, "config.pbtxt"), change(text, model));
  }
  return repository;
}
