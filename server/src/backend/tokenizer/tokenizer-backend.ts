/**
 * The backend `tokenizer` replaces the Python models `preprocessing` and `postprocessing` of LLM repositories: text to
 * tokens and back, in the server's process. A model's inputs show which of the two it is. A third kind makes the inputs
 * of text encoders.
 */
import { setImmediate } from "node:timers/promises";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { hasTokenizerFiles, loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { Backend, BackendModel, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";
import { encodeTexts } from "./encode-texts.ts";
import { longestText, modelVocabulary } from "./model-hints.ts";
import { postprocess } from "./postprocess.ts";
import { declaredOutputs, preprocess } from "./preprocess.ts";
import { parseTokenizerSettings, type TokenizerSettings } from "./tokenizer-settings.ts";

/** A batch with more input than this is worked on in turns with the rest of the server. */
const MAX_SYNCHRONOUS_BYTES = 65_536;

/** The work of one request, in steps. */
type Answer = (request: BackendRequest) => Iterator<undefined, readonly Tensor[], undefined>;

/** How a kind of model answers. */
interface Work {
  readonly answer: Answer;
  /** For answers that are short enough to be made in the call. */
  readonly answerNow?: ModelInstance["answerNow"];
}

export function createTokenizerBackend(): Backend {
  return { name: "tokenizer", load, close: () => Promise.resolve() };
}

async function load(source: ModelSource): Promise<BackendModel> {
  const settings = parseTokenizerSettings(source);
  const { tokenizer, folder } = await loadFirst(settings.folders, source.name);
  const work = WORKS[settings.role](source, settings, tokenizer, folder);
  return {
    createInstance: ({ name }) => Promise.resolve(new TokenizerInstance(name, work)),
    close: () => Promise.resolve(),
  };
}

type CreateWork = (source: ModelSource, settings: TokenizerSettings, tokenizer: Tokenizer, folder: string) => Work;

const WORKS: Readonly<Record<TokenizerSettings["role"], CreateWork>> = {
  preprocessing: preprocessor,
  postprocessing: postprocessor,
  encoding: encoder,
};

async function loadFirst(
  folders: readonly string[],
  model: string,
): Promise<{ readonly tokenizer: Tokenizer; readonly folder: string }> {
  for (const folder of folders) {
    if (!hasTokenizerFiles(folder)) continue;
    try {
      return { tokenizer: await loadTokenizer(folder), folder };
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new ServerError("invalid_argument", `model '${model}': ${reason}`, { cause });
    }
  }
  throw new ServerError(
    "not_found",
    `model '${model}': no tokenizer.json and no GGUF file in ${folders.join(" or ")}; set parameter 'tokenizer_dir' to a Hugging Face tokenizer folder`,
  );
}

function preprocessor(
  { config }: ModelSource,
  settings: TokenizerSettings,
  tokenizer: Tokenizer,
  folder: string,
): Work {
  const { promptTemplate, imageToken, imageTemplate, addSpecialTokens } = settings;
  const vocabularySize = settings.vocabularySize ?? modelVocabulary(folder) ?? tokenizer.vocabularySize;
  const model = {
    images: {
      template: promptTemplate,
      place: imageToken,
      framedPlace: imageTemplate,
      vocabularySize,
      addSpecialTokens,
    },
    tokenizer,
    addSpecialTokens,
    maxTokens: settings.maxTokens,
    isBatching: config.max_batch_size > 0,
    outputs: declaredOutputs(config),
  };
  return { answer: ({ request, batchSize }) => preprocess(model, request, batchSize) };
}

function postprocessor({ config }: ModelSource, settings: TokenizerSettings, tokenizer: Tokenizer): Work {
  const model = {
    createDetokenizer: () => tokenizer.createDetokenizer({ skipSpecialTokens: settings.skipSpecialTokens }),
    outputs: new Set(config.output.map(({ name }) => name)),
    streams: new WeakMap(),
  };
  return {
    answer: ({ request }) => ({ next: () => ({ done: true, value: postprocess(model, request) }) }),
    answerNow: (request) => postprocess(model, request),
  };
}

function encoder({ config }: ModelSource, settings: TokenizerSettings, tokenizer: Tokenizer, folder: string): Work {
  const input = config.input.find(({ data_type }) => data_type === "TYPE_STRING")?.name ?? "";
  const model = {
    tokenizer,
    input,
    addSpecialTokens: settings.addSpecialTokens,
    isBatching: config.max_batch_size > 0,
    outputs: declaredOutputs(config),
    maxLength: settings.maxLength ?? longestText(folder),
    padMultiple: settings.padMultiple,
  };
  return { answer: ({ request, batchSize }) => encodeTexts(model, request, batchSize) };
}

class TokenizerInstance implements ModelInstance {
  readonly name: string;
  readonly answerNow: ModelInstance["answerNow"];
  readonly #answer: Answer;

  constructor(name: string, { answer, answerNow }: Work) {
    this.name = name;
    this.#answer = answer;
    this.answerNow = answerNow;
  }

  execute(batch: Batch): Promise<void> | undefined {
    batch.computeStarted();
    if (inputBytes(batch) > MAX_SYNCHRONOUS_BYTES) return this.#executeInTurns(batch);
    const finishers = batch.requests.map((request) => {
      try {
        return success(request, drain(this.#answer(request)));
      } catch (error) {
        return failure(request, error);
      }
    });
    batch.computeEnded();
    for (const finish of finishers) finish();
    return undefined;
  }

  isReady(): boolean {
    return true;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #executeInTurns(batch: Batch): Promise<void> {
    const finishers: (() => void)[] = [];
    for (const request of batch.requests) {
      try {
        finishers.push(success(request, await drainInTurns(request, this.#answer(request))));
      } catch (error) {
        finishers.push(failure(request, error));
      }
    }
    batch.computeEnded();
    for (const finish of finishers) finish();
  }
}

function success(request: BackendRequest, outputs: readonly Tensor[]): () => void {
  return () => request.respond({ outputs, final: true });
}

function failure(request: BackendRequest, error: unknown): () => void {
  return () => request.fail(ServerError.from(error));
}

function drain<T>(steps: Iterator<undefined, T, undefined>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

async function drainInTurns<T>({ request }: BackendRequest, steps: Iterator<undefined, T, undefined>): Promise<T> {
  for (;;) {
    if (request.signal.aborted) throw new ServerError("cancelled", "Request was cancelled");
    const step = steps.next();
    if (step.done === true) return step.value;
    await setImmediate();
  }
}

function inputBytes(batch: Batch): number {
  let bytes = 0;
  for (const { request } of batch.requests) for (const { data } of request.inputs) bytes += data.length;
  return bytes;
}
