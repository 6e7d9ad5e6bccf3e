/** `nereid run`: takes the flags of TensorRT-LLM's run.py and has the same output. */
import process from "node:process";
import type { CommandSyntax, FlagTable, FlagValues } from "@nereid/server/cli/arguments";
import { NO_EFFECT } from "@nereid/server/cli/no-effect";
import { runCommand } from "@nereid/server/cli/run-command";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { cutPrompt, type Prompt, readPrompts, runPrompts, wordList } from "../run/run-prompts.ts";
import { type GeneratedText, TextEngine } from "../run/text-engine.ts";
import { chooseDevice } from "../run/tool-device.ts";
import { DEVICE_FLAG } from "./checkpoint-flags.ts";

const DEFAULT_PROMPT = "Born in north-east France, Soyer trained as a";

const FLAGS = {
  max_output_len: { type: "integer", min: 1, max: 1 << 24, required: true, summary: "new tokens at most" },
  engine_dir: {
    type: "string",
    value: "DIR",
    default: "engine_outputs",
    summary: "engine of nereid build; also a checkpoint, a Hugging Face folder or a GGUF file",
  },
  tokenizer_dir: { type: "string", value: "DIR", summary: "folder with tokenizer.json; default: the engine's" },
  input_text: {
    type: "string",
    many: "list",
    default: DEFAULT_PROMPT,
    summary: "prompts",
  },
  input_file: { type: "string", value: "FILE", summary: "a text file with one prompt, or .csv with token ids" },
  max_input_length: { type: "integer", min: 1, default: 923, summary: "a longer prompt keeps its last tokens" },
  no_add_special_tokens: { type: "switch", summary: "add no start token" },
  num_beams: { type: "integer", min: 1, max: 64, default: 1, summary: "beams" },
  num_return_sequences: { type: "integer", min: 1, summary: "beams that are shown; default: all" },
  temperature: { type: "number", min: 0, default: 1, summary: "above 0" },
  top_k: { type: "integer", min: 0, default: 1, summary: "candidates kept; 1 is greedy, 0 keeps all" },
  top_p: { type: "number", min: 0, max: 1, default: 0, summary: "probability kept; 0 keeps all" },
  length_penalty: { type: "number", default: 1, summary: "exponent of the length by which beams are judged" },
  repetition_penalty: { type: "number", default: 1, summary: "1 is none" },
  presence_penalty: { type: "number", default: 0, summary: "0 is none" },
  frequency_penalty: { type: "number", default: 0, summary: "0 is none" },
  random_seed: { type: "integer", min: 0, default: 0, summary: "equal seeds give equal replies" },
  early_stopping: { type: "integer", min: 0, max: 2, default: 1, summary: "when a beam search ends" },
  end_id: { type: "integer", min: 0, summary: "id that ends a reply; default: the model's" },
  min_input_length: NO_EFFECT.value,
  stop_words: { type: "string", many: "list", summary: "texts that end a reply" },
  bad_words: { type: "string", many: "list", summary: "texts that never appear" },
  no_repeat_ngram_size: { type: "integer", min: 0, default: 0, summary: "no n-gram of this length repeats; 0 is off" },
  min_p: { type: "number", min: 0, max: 1, default: 0, summary: "share of the best token's probability; 0 is off" },
  streaming: { type: "switch", summary: "stream the reply" },
  output_csv: { type: "string", value: "FILE", summary: "write the ids of the replies, a line for each beam" },
  kv_cache_enable_block_reuse: { type: "switch", summary: "prompts share cached prefixes" },
  run_profiling: { type: "switch", summary: "print the speed" },
  device: DEVICE_FLAG,
  log_level: NO_EFFECT.value,
  tokenizer_type: NO_EFFECT.value,
  vocab_file: NO_EFFECT.value,
  streaming_interval: NO_EFFECT.value,
  kv_cache_free_gpu_memory_fraction: NO_EFFECT.value,
  max_tokens_in_paged_kv_cache: NO_EFFECT.value,
  gpu_weights_percent: NO_EFFECT.value,
  use_py_session: NO_EFFECT.toggle,
  use_cpp_session: NO_EFFECT.toggle,
  debug_mode: NO_EFFECT.toggle,
  no_prompt_template: NO_EFFECT.toggle,
  enable_chunked_context: NO_EFFECT.toggle,
  enable_context_fmha_fp32_acc: NO_EFFECT.toggle,
  multi_block_mode: NO_EFFECT.toggle,
  cuda_graph_mode: NO_EFFECT.toggle,
  output_npy: NO_EFFECT.value,
  output_logits_npy: NO_EFFECT.value,
  output_log_probs_npy: NO_EFFECT.value,
  output_cum_log_probs_npy: NO_EFFECT.value,
  lora_dir: { type: "string", many: "list", hidden: true, summary: "no" },
  lora_task_uids: { type: "string", many: "list", hidden: true, summary: "no" },
  prompt_table_path: NO_EFFECT.value,
  prompt_tasks: NO_EFFECT.value,
  medusa_choices: NO_EFFECT.value,
  lookahead_config: NO_EFFECT.value,
  max_attention_window_size: { type: "string", many: "list", hidden: true, summary: "no" },
  sink_token_length: NO_EFFECT.value,
} as const satisfies FlagTable;

const NUMPY = "Ask a served model for them: nereid serve, outputs context_logits and log_probs";
const SERVED = "Serve the model: requests may ask for that";
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["output_npy", "Use --output_csv"],
  ["output_logits_npy", NUMPY],
  ["output_log_probs_npy", NUMPY],
  ["output_cum_log_probs_npy", NUMPY],
  ["lora_dir", SERVED],
  ["prompt_table_path", SERVED],
  ["medusa_choices", "Leave it out: draft heads are not supported"],
  ["lookahead_config", SERVED],
  ["max_attention_window_size", "Leave it out: windows are those of the model"],
  ["sink_token_length", "Leave it out: no model here has them"],
]);

/** Names of the flags, for the choice between this command and the chat. */
export const RUN_FLAG_NAMES: readonly string[] = Object.keys(FLAGS);

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "run",
  description: "Generates replies to prompts, in this process and without a server.",
  flags: FLAGS,
  refused: REFUSED,
  examples: [
    'nereid run --engine_dir llama3-engine --tokenizer_dir Llama-3 --max_output_len 200 --input_text "How do I count to nine?"',
  ],
};

type Values = FlagValues<typeof FLAGS>;

export async function runEngineCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const numPrompts = values.input_file === undefined ? values.input_text.length : 8;
    await using engine = await TextEngine.open({
      engineDir: values.engine_dir,
      tokenizerDir: values.tokenizer_dir,
      maxSequences: numPrompts * values.num_beams,
      maxSequenceTokens: values.max_input_length + values.max_output_len,
      reusesPrefixes: values.kv_cache_enable_block_reuse,
      device: chooseDevice(values.device),
      reporter,
    });
    const encode = (text: string): Int32Array => engine.encode(text, !values.no_add_special_tokens);
    const read =
      values.input_file === undefined
        ? values.input_text.map((text) => ({ text, ids: encode(text) }))
        : await readPrompts(values.input_file, encode);
    const prompts = read.map((prompt) => cutPrompt(prompt, values.max_input_length));
    const startMs = performance.now();
    const request = { ...requestOf(values, engine), signal };
    const results = values.streaming
      ? await stream(engine, prompts, request)
      : await runPrompts(engine, prompts, request, numPrompts);
    const seconds = (performance.now() - startMs) / 1000;
    signal.throwIfAborted();
    const text = values.streaming ? "" : resultText(engine, prompts, results);
    if (values.output_csv !== undefined) await writeFileAtomically(values.output_csv, csvText(results));
    const numTokens = results.reduce((sum, result) => sum + result.numTokens, 0);
    reporter.result(text, { outputs: results.map(({ beams }) => beams), num_tokens: numTokens, seconds });
    if (values.run_profiling) {
      reporter.info(`${numTokens} tokens in ${seconds.toFixed(2)} s: ${(numTokens / seconds).toFixed(1)} tokens/s`);
    }
  });
}

function requestOf(values: Values, engine: TextEngine) {
  const plain = (text: string): Int32Array => engine.encode(text, false);
  return {
    maxTokens: values.max_output_len,
    temperature: values.temperature,
    topK: values.top_k,
    topP: values.top_p,
    minP: values.min_p,
    beamWidth: values.num_beams,
    numReturnBeams: Math.min(values.num_beams, values.num_return_sequences ?? values.num_beams),
    lengthPenalty: values.length_penalty,
    earlyStopping: values.early_stopping as 0 | 1 | 2,
    repetitionPenalty: values.repetition_penalty,
    presencePenalty: values.presence_penalty,
    frequencyPenalty: values.frequency_penalty,
    noRepeatNgramSize: values.no_repeat_ngram_size,
    seed: BigInt(values.random_seed),
    stopWords: wordList(values.stop_words, plain),
    badWords: wordList(values.bad_words, plain),
    ...(values.end_id === undefined ? {} : { endIds: Int32Array.of(values.end_id) }),
  };
}

/** Sequential, because interleaved replies would be unreadable. */
async function stream(
  engine: TextEngine,
  prompts: readonly Prompt[],
  request: ReturnType<typeof requestOf>,
): Promise<GeneratedText[]> {
  const results: GeneratedText[] = [];
  for (const [i, prompt] of prompts.entries()) {
    process.stdout.write(`${inputLine(engine, prompt, i)}\nOutput [Text ${i} Beam 0]: "`);
    results.push(await engine.generate({ ...request, promptTokens: prompt.ids }, (text) => process.stdout.write(text)));
    process.stdout.write('"\n');
  }
  return results;
}

function inputLine(engine: TextEngine, { text, ids }: Prompt, index: number): string {
  return `Input [Text ${index}]: "${text ?? engine.decode(ids)}"`;
}

function resultText(engine: TextEngine, prompts: readonly Prompt[], results: readonly GeneratedText[]): string {
  const lines = prompts.map((prompt, i) => [
    inputLine(engine, prompt, i),
    ...(results[i]?.beams ?? []).map(({ text }, beam) => `Output [Text ${i} Beam ${beam}]: "${text}"`),
  ]);
  return lines.flat().join("\n");
}

function csvText(results: readonly GeneratedText[]): string {
  return results
    .flatMap(({ beams }) => beams)
    .map(({ tokenIds }) => `${tokenIds.join(",")}\n`)
    .join("");
}
