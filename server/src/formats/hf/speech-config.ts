/**
 * Files beside the weights of a model of speech: special tokens and rules of generation_config.json, the features of
 * preprocessor_config.json. Source: transformers, generation_whisper.py and feature_extraction_whisper.py.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isObject } from "../../core/json-object.ts";
import { HfFields } from "./config-fields.ts";

const MAX_ID = 1 << 24;
const MAX_FILE_BYTES = 1 << 24;
const LANGUAGE = /^<\|([a-z]{2,3})\|>$/;

/** Ids of generation_config.json; absent ones are not set. */
export interface SpeechTokens {
  readonly startId: number;
  readonly endId: number;
  readonly noTimestampsId: number | undefined;
  /** By the code of the language; empty for models of one language. */
  readonly languages: ReadonlyMap<string, number>;
  readonly transcribeId: number | undefined;
  readonly translateId: number | undefined;
  readonly previousId: number | undefined;
  readonly suppressed: readonly number[];
  readonly suppressedFirst: readonly number[];
  readonly maxFirstTimestamp: number | undefined;
}

export interface SpeechFeatures {
  readonly numMels: number;
  readonly sampleRate: number;
  readonly fftLength: number;
  readonly hopLength: number;
  /** Frames of a window, all of which the encoder reads. */
  readonly numFrames: number;
  /** Tokens of prompt and output. */
  readonly maxTokens: number;
}

/** @throws Error naming file and field */
export async function readSpeechTokens(folder: string): Promise<SpeechTokens> {
  const config = await readFields(folder, "config.json");
  const generation = await readFields(folder, "generation_config.json");
  const id = (name: string): number | undefined => {
    const value = (generation?.get(name) ?? config?.get(name)) as unknown;
    const first: unknown = Array.isArray(value) ? (value as unknown[])[0] : value;
    return typeof first === "number" && Number.isSafeInteger(first) && first >= 0 ? first : undefined;
  };
  const list = (name: string): readonly number[] => (generation ?? config)?.ids(name, MAX_ID) ?? [];
  const tasks = objectOf(generation?.get("task_to_id"));
  const [startId, endId] = [id("decoder_start_token_id"), id("eos_token_id")];
  if (startId === undefined || endId === undefined)
    throw new Error(`${join(folder, "config.json")}: expected decoder_start_token_id and eos_token_id`);
  const isOneLanguage = generation?.get("is_multilingual") === false;
  return {
    startId,
    endId,
    noTimestampsId: id("no_timestamps_token_id"),
    languages: isOneLanguage ? new Map() : languagesOf(generation?.get("lang_to_id")),
    transcribeId: isOneLanguage ? undefined : numberOf(tasks.transcribe),
    translateId: isOneLanguage ? undefined : numberOf(tasks.translate),
    previousId: id("prev_sot_token_id"),
    suppressed: list("suppress_tokens"),
    suppressedFirst: list("begin_suppress_tokens"),
    maxFirstTimestamp: id("max_initial_timestamp_index"),
  };
}

/** @throws Error naming file and field */
export async function readSpeechFeatures(folder: string): Promise<SpeechFeatures> {
  const config = await readFields(folder, "config.json");
  if (config === undefined) throw new Error(`${join(folder, "config.json")}: expected the config of a model of speech`);
  const features = (await readFields(folder, "preprocessor_config.json")) ?? config;
  const count = (fields: HfFields, name: string, byDefault?: number): number =>
    fields.int(name, { min: 1, max: 1 << 20, ...(byDefault === undefined ? {} : { default: byDefault }) });
  const numMels = count(config, "num_mel_bins", 80);
  const made = count(features, "feature_size", numMels);
  if (made !== numMels) throw features.refusal("feature_size", `${numMels}, the num_mel_bins of config.json`, made);
  const fftLength = count(features, "n_fft", 400);
  if (fftLength % 2 !== 0) throw features.refusal("n_fft", "an even number", fftLength);
  return {
    numMels,
    sampleRate: count(features, "sampling_rate", 16_000),
    fftLength,
    hopLength: count(features, "hop_length", 160),
    // The second convolution takes every second frame.
    numFrames: 2 * count(config, "max_source_positions", 1500),
    maxTokens: count(config, "max_target_positions", 448),
  };
}

/** Keys are tokens, as <|en|>. */
function languagesOf(value: unknown): ReadonlyMap<string, number> {
  const entries = Object.entries(objectOf(value)).flatMap(([token, id]) => {
    const [, code] = LANGUAGE.exec(token) ?? [];
    const number = numberOf(id);
    return code === undefined || number === undefined ? [] : [[code, number] as const];
  });
  return new Map(entries);
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 && value < MAX_ID ? value : undefined;
}

/** Undefined when there is no such file. */
async function readFields(folder: string, name: string): Promise<HfFields | undefined> {
  const path = join(folder, name);
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  if (text.length > MAX_FILE_BYTES) throw new Error(`${path}: expected at most ${MAX_FILE_BYTES} characters`);
  return new HfFields(JSON.parse(text) as unknown, path);
}
