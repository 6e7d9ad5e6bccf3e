/**
 * The backend `encoder`: vectors, rerank scores and classes of texts, in a process of its own. GGUF files are computed by
 * libllama, Hugging Face folders by our engine. Inputs are a text and, for scores of pairs, a second one; the output is one row of FP32 for each text. Parameters
 * `model_path`, `pooling`, `normalize`, `max_tokens` and `num_threads`.
 */
import { existsSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { bytesElements } from "../../core/bytes-tensor.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { findGguf } from "../../formats/gguf/find-file.ts";
import { WorkerProcess } from "../../worker-process/worker-process.ts";
import type { Backend, BackendModel, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";
import type { EncoderData, EncoderFacts, EncoderJob, EncoderResult } from "./messages.ts";

interface EncoderSettings {
  readonly text: string;
  /** The second text of a pair. */
  readonly pair: string | undefined;
  readonly output: string;
  /** Numbers of a row, as the configuration says; -1: any. */
  readonly width: number;
  /** Undefined: vectors are, and scores are not. */
  readonly isNormalized: boolean | undefined;
  readonly data: Omit<EncoderData, "path">;
}

const POOLINGS = ["none", "mean", "cls", "last", "max", "rank"] as const;

export function createEncoderBackend(): Backend {
  return { name: "encoder", load, close: () => Promise.resolve() };
}

async function load(source: ModelSource): Promise<BackendModel> {
  const settings = readSettings(source.config);
  const path = await modelPath(source);
  return {
    createInstance: async ({ name }) => {
      const worker = new WorkerProcess({
        program: fileURLToPath(new URL(`./encoder-worker${extname(import.meta.url)}`, import.meta.url)),
        data: { ...settings.data, path } satisfies EncoderData,
        title: `the process of encoder '${name}'`,
        log: (message) => source.log.error("encoder", message),
      });
      return startInstance(name, settings, worker, source);
    },
    close: () => Promise.resolve(),
  };
}

async function startInstance(
  name: string,
  settings: EncoderSettings,
  worker: WorkerProcess,
  { config, log }: ModelSource,
): Promise<ModelInstance> {
  try {
    await worker.start();
    const { width, description, engine, isClassifier } = (await worker.call("facts")) as EncoderFacts;
    if (settings.width !== -1 && settings.width !== width) {
      const text = `output '${settings.output}' has rows of ${settings.width} numbers, and the model gives ${width}`;
      throw invalidArgument(`model '${config.name}': ${text}`);
    }
    log.info("encoder", `${name}: engine ${engine} on the CPU serves ${description}, rows of ${width} numbers`);
    const { isNormalized = settings.pair === undefined && !isClassifier } = settings;
    return new EncoderInstance(name, { ...settings, isNormalized }, worker);
  } catch (error) {
    await worker.close();
    throw error;
  }
}

/**
 * The parameter `model_path`, a file, a folder with one GGUF model or a Hugging Face folder; else the version's folder. A
 * folder with config.json is a Hugging Face folder.
 */
async function modelPath({ config, modelFolder, versionFolder }: ModelSource): Promise<string> {
  const given = parameter(config, "model_path");
  const folder = given === undefined ? versionFolder : resolve(modelFolder, given);
  if (existsSync(join(folder, "config.json"))) return folder;
  const found = await findGguf(folder).catch((cause: unknown) => {
    throw invalidArgument(`model '${config.name}': ${cause instanceof Error ? cause.message : String(cause)}`);
  });
  if (found?.endsWith(".gguf") === true) return found;
  throw invalidArgument(
    `model '${config.name}': expected a GGUF file or a config.json in ${folder}; the parameter 'model_path' names one`,
  );
}

function parameter(config: ModelConfig, key: string): string | undefined {
  const text = Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
  return text === undefined || text.trim() === "" ? undefined : text.trim();
}

function readSettings(config: ModelConfig): EncoderSettings {
  const refuse = (text: string): never => {
    throw invalidArgument(`model '${config.name}': ${text}`);
  };
  const texts = config.input.filter(({ data_type }) => data_type === "TYPE_STRING");
  const [text, pair] = texts;
  const [output] = config.output;
  if (text === undefined || texts.length !== config.input.length || texts.length > 2) {
    return refuse("the encoder backend expects one input of TYPE_STRING, or two for pairs");
  }
  if (output?.data_type !== "TYPE_FP32" || config.output.length !== 1) {
    return refuse("the encoder backend expects one output of TYPE_FP32");
  }
  const pooling = parameter(config, "pooling");
  const found = POOLINGS.find((each) => each === pooling);
  if (pooling !== undefined && found === undefined)
    refuse(`parameter 'pooling' is '${pooling}', expected ${POOLINGS.join(", ")}`);
  const normalize = parameter(config, "normalize");
  if (normalize !== undefined && !["true", "false"].includes(normalize))
    refuse(`parameter 'normalize' is '${normalize}', expected true or false`);
  const count = (key: string): number => {
    const value = Number(parameter(config, key) ?? 0);
    return Number.isSafeInteger(value) && value >= 0 ? value : refuse(`parameter '${key}' is no number of at least 0`);
  };
  const data = { pooling: found, maxTokens: count("max_tokens"), numThreads: count("num_threads") };
  const width = output.dims.at(-1) ?? -1;
  const isNormalized = normalize === undefined ? undefined : normalize === "true";
  return { text: text.name, pair: pair?.name, output: output.name, width, isNormalized, data };
}

class EncoderInstance implements ModelInstance {
  readonly name: string;
  readonly #settings: EncoderSettings;
  readonly #worker: WorkerProcess;

  constructor(name: string, settings: EncoderSettings, worker: WorkerProcess) {
    this.name = name;
    this.#settings = settings;
    this.#worker = worker;
  }

  /** All texts of a batch go to the process at once; one that is refused costs its request alone. */
  async execute(batch: Batch): Promise<void> {
    batch.computeStarted();
    const answers = await Promise.all(batch.requests.map((request) => this.#answer(request)));
    batch.computeEnded();
    for (const answer of answers) answer();
  }

  isReady(): boolean {
    return true;
  }

  close(): Promise<void> {
    return this.#worker.close();
  }

  async #answer(request: BackendRequest): Promise<() => void> {
    const { output, isNormalized } = this.#settings;
    try {
      const job: EncoderJob = { texts: this.#read(request) };
      const { values } = (await this.#worker.call(job)) as EncoderResult;
      const width = values.length / Math.max(1, job.texts.length);
      if (isNormalized) for (let at = 0; at < values.length; at += width) normalize(values.subarray(at, at + width));
      const shape = [job.texts.length, width];
      const data = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      return () => request.respond({ outputs: [{ name: output, datatype: "FP32", shape, data }], final: true });
    } catch (error) {
      return () => request.fail(ServerError.from(error));
    }
  }

  #read({ request }: BackendRequest): (readonly [text: string, pair?: string])[] {
    const textsOf = (name: string): string[] => {
      const tensor = request.inputs.find((input) => input.name === name);
      if (tensor === undefined) throw invalidArgument(`input '${name}' is missing`);
      return bytesElements(tensor).map((bytes) => Buffer.from(bytes).toString("utf8"));
    };
    const texts = textsOf(this.#settings.text);
    if (this.#settings.pair === undefined) return texts.map((text) => [text]);
    const pairs = textsOf(this.#settings.pair);
    if (pairs.length === texts.length) return texts.map((text, i) => [text, pairs[i] ?? ""]);
    throw invalidArgument(`expected as many second texts as first ones, got ${pairs.length} and ${texts.length}`);
  }
}

/** To the length 1; a vector of zeros stays. */
function normalize(row: Float32Array): void {
  const length = Math.hypot(...row);
  if (length > 0) for (let i = 0; i < row.length; i++) row[i] = (row[i] ?? 0) / length;
}
