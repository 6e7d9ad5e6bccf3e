/** `nereid summarize`: takes the flags of TensorRT-LLM's summarize.py. */
import process from "node:process";
import type { CommandSyntax, FlagTable } from "@nereid/server/cli/arguments";
import { NO_EFFECT } from "@nereid/server/cli/no-effect";
import { runCommand } from "@nereid/server/cli/run-command";
import { ToolError } from "@nereid/server/files/tool-error";
import { ROUGE_KINDS } from "../run/rouge.ts";
import { readSummaries, type SummaryReport, summarize } from "../run/summarize.ts";
import { TextEngine } from "../run/text-engine.ts";
import { chooseDevice } from "../run/tool-device.ts";
import { DEVICE_FLAG } from "./checkpoint-flags.ts";

const FLAGS = {
  engine_dir: {
    type: "string",
    value: "DIR",
    default: "engine_outputs",
    summary: "engine of nereid build; also a checkpoint, a Hugging Face folder or a GGUF file",
  },
  tokenizer_dir: {
    type: "string",
    value: "DIR",
    aliases: ["hf_model_dir"],
    summary: "folder with tokenizer.json; default: the engine's",
  },
  dataset: {
    type: "string",
    value: "FILE",
    aliases: ["dataset_dir", "dataset_path"],
    summary: ".jsonl with an article and its highlights on each line, or a text and its summary",
  },
  batch_size: { type: "integer", min: 1, default: 1, summary: "texts side by side" },
  max_ite: { type: "integer", min: 1, default: 20, summary: "batches at most" },
  output_len: { type: "integer", min: 1, default: 100, summary: "new tokens at most" },
  max_input_length: { type: "integer", min: 1, default: 923, summary: "a longer prompt keeps its last tokens" },
  num_beams: { type: "integer", min: 1, max: 64, default: 1, summary: "beams, of which the first is scored" },
  temperature: { type: "number", min: 0, default: 1, summary: "above 0" },
  top_k: { type: "integer", min: 0, default: 1, summary: "candidates kept; 1 is greedy" },
  top_p: { type: "number", min: 0, max: 1, default: 0, summary: "probability kept; 0 keeps all" },
  length_penalty: { type: "number", default: 1, summary: "exponent of the length by which beams are judged" },
  repetition_penalty: { type: "number", default: 1, summary: "1 is none" },
  presence_penalty: { type: "number", default: 0, summary: "0 is none" },
  frequency_penalty: { type: "number", default: 0, summary: "0 is none" },
  random_seed: { type: "integer", min: 0, default: 0, summary: "equal seeds give equal summaries" },
  check_accuracy: { type: "switch", summary: "fail when the score is below the threshold" },
  tensorrt_llm_rouge1_threshold: { type: "number", default: 15, summary: "least rouge1, in per cent" },
  test_trt_llm: { type: "switch", summary: "accepted: the engine is always tested" },
  kv_cache_enable_block_reuse: { type: "switch", summary: "prompts share cached prefixes" },
  test_hf: NO_EFFECT.toggle,
  eval_ppl: NO_EFFECT.toggle,
  eval_task: {
    type: "string",
    choices: ["summarize", "summarize_long", "code_completion"],
    hidden: true,
    summary: "no",
  },
  tensorrt_llm_ppl_threshold: NO_EFFECT.value,
  data_type: NO_EFFECT.value,
  hf_data_type: NO_EFFECT.value,
  tokenizer_type: NO_EFFECT.value,
  vocab_file: NO_EFFECT.value,
  rouge_dir: NO_EFFECT.value,
  output_dir: NO_EFFECT.value,
  device: DEVICE_FLAG,
  log_level: NO_EFFECT.value,
  use_py_session: NO_EFFECT.toggle,
  debug_mode: NO_EFFECT.toggle,
  no_add_special_tokens: NO_EFFECT.toggle,
  kv_cache_free_gpu_memory_fraction: NO_EFFECT.value,
  max_tokens_in_paged_kv_cache: NO_EFFECT.value,
  enable_chunked_context: NO_EFFECT.toggle,
  multi_block_mode: NO_EFFECT.toggle,
  gpu_weights_percent: NO_EFFECT.value,
} as const satisfies FlagTable;

const REFUSED: ReadonlyMap<string, string> = new Map([
  ["test_hf", "Run transformers yourself to compare with it: no Python is started here"],
  ["eval_ppl", "Use nereid quantize, which measures perplexity before and after"],
]);

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "summarize",
  description:
    "Lets an engine summarize texts, scores the summaries by ROUGE against those of the file, and reports the speed.",
  flags: FLAGS,
  refused: REFUSED,
  examples: [
    "nereid summarize --test_trt_llm --engine_dir engine --tokenizer_dir model --dataset cnn.jsonl --batch_size 8",
  ],
};

export async function summarizeCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    if (values.dataset === undefined) {
      throw new ToolError("--dataset is missing", {
        fix: "Name a .jsonl file with an article and its highlights on each line: nothing is downloaded here",
      });
    }
    const items = await readSummaries(values.dataset, values.batch_size * values.max_ite);
    await using engine = await TextEngine.open({
      engineDir: values.engine_dir,
      tokenizerDir: values.tokenizer_dir,
      maxSequences: values.batch_size * values.num_beams,
      maxSequenceTokens: values.max_input_length + values.output_len,
      reusesPrefixes: values.kv_cache_enable_block_reuse,
      device: chooseDevice(values.device),
      reporter,
    });
    const sampling = {
      maxTokens: values.output_len,
      temperature: values.temperature,
      topK: values.top_k,
      topP: values.top_p,
      beamWidth: values.num_beams,
      numReturnBeams: 1,
      lengthPenalty: values.length_penalty,
      repetitionPenalty: values.repetition_penalty,
      presencePenalty: values.presence_penalty,
      frequencyPenalty: values.frequency_penalty,
      seed: BigInt(values.random_seed),
      signal,
    };
    const task = reporter.startTask({ task: "summarize", unit: "texts", total: items.length });
    const { batch_size: batchSize, max_input_length: maxInputLength } = values;
    const onItem = (count: number): void => {
      signal.throwIfAborted();
      task.add(count);
    };
    const options = { batchSize, maxInputLength, onItem };
    const report = await summarize(engine, items, sampling, options).finally(() => task.end());
    const { first: _, ...fields } = report;
    reporter.result(reportText(report), fields);
    const least = values.tensorrt_llm_rouge1_threshold;
    if (values.check_accuracy && report.scores.rouge1 < least) {
      reporter.error(`rouge1 is ${report.scores.rouge1.toFixed(2)}, expected at least ${least}`);
      process.exitCode = 1;
    }
  });
}

function reportText({ numTexts, numTokens, seconds, scores, first }: SummaryReport): string {
  const example =
    first === undefined
      ? []
      : [`Text      : ${first.item.text}`, `Highlights: ${first.item.summary}`, `Summary   : ${first.output}`, ""];
  return [
    ...example,
    `Engine (texts: ${numTexts})`,
    `Engine (total latency: ${seconds} sec)`,
    `Engine (total output tokens: ${numTokens})`,
    `Engine (tokens per second: ${numTokens / seconds})`,
    "Engine beam 0 result",
    ...ROUGE_KINDS.map((kind) => `  ${kind} : ${scores[kind]}`),
  ].join("\n");
}
