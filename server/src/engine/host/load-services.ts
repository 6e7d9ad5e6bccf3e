/** Finds what a model folder offers an engine beside weights: its tokenizer, grammars over it, functions on logits. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { readSpeechTokens } from "../../formats/hf/speech-config.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import { hasTokenizerFiles, loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import { DEFAULT_ADAPTERS } from "../adapters/adapter-choice.ts";
import { AdapterLibrary } from "../adapters/adapter-library.ts";
import type { EngineServices } from "../engine-services.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { GrammarGuides } from "../guide/grammar-guides.ts";
import {
  type LogitsPostProcessor,
  type LogitsPostProcessors,
  NO_POST_PROCESSORS,
} from "../sample/logits-post-processor.ts";
import { speechProcessor } from "../sample/speech-rules.ts";
import { draftsForcedRuns } from "../speculation/create-drafters.ts";
import type { StepRunner } from "../step-runner.ts";

type ServedRunner = Pick<StepRunner, "vocabSize" | "adapters" | "encoder" | "stepsAhead">;

/** @throws ServerError when there is a tokenizer, a module or an adapter, and it cannot be used */
export async function loadServices(spec: EngineSpec, runner: ServedRunner): Promise<EngineServices> {
  const { vocabSize } = runner;
  const postProcessors = await withSpeechRules(await loadPostProcessors(spec.postProcessorModule), spec, runner);
  const adapters = await openAdapters(spec, runner);
  if (!hasTokenizerFiles(spec.modelDir)) return { postProcessors, adapters };
  const tokenizer = await tryLoadTokenizer(spec.modelDir);
  if (tokenizer === undefined) return { postProcessors, adapters };
  const hasForcedRuns = draftsForcedRuns(runner);
  const guides = new GrammarGuides({ tokenizerDir: spec.modelDir, vocabSize, hasForcedRuns });
  return { postProcessors, adapters, tokenizer, guides };
}

/** Tokens can be served without it where a GGUF file's is of a kind that is not known; the log says which. */
async function tryLoadTokenizer(modelDir: string): Promise<Tokenizer | undefined> {
  try {
    return await loadTokenizer(modelDir);
  } catch (error) {
    if (existsSync(join(modelDir, "tokenizer.json"))) throw error;
    process.stderr.write(`no tokenizer: ${error instanceof Error ? error.message : String(error)}\n`);
    return undefined;
  }
}

/** Without a word on adapters, requests may still bring theirs. */
async function openAdapters(spec: EngineSpec, { adapters }: ServedRunner): Promise<AdapterLibrary | undefined> {
  if (adapters !== undefined) return AdapterLibrary.open(adapters, spec.adapters ?? DEFAULT_ADAPTERS);
  if (spec.adapters === undefined) return undefined;
  const { folders, root, prefetch } = spec.adapters;
  if (folders.length === 0 && root === undefined && prefetch === undefined) return undefined;
  throw new ServerError("unsupported", "LoRA adapters are set, which this device does not have");
}

/** Models of speech follow the rules of their files, unless the module has others for all requests. */
async function withSpeechRules(
  named: LogitsPostProcessors,
  { modelDir }: EngineSpec,
  { encoder, vocabSize }: ServedRunner,
): Promise<LogitsPostProcessors> {
  if (encoder?.kind !== "frames" || named.has("*")) return named;
  const { languages, ...tokens } = await readSpeechTokens(modelDir);
  const rules = { ...tokens, languageIds: [...languages.values()] };
  const all = [rules.languageIds, rules.suppressed, rules.suppressedFirst].flat();
  const wrong = all.find((id) => id >= vocabSize);
  if (wrong !== undefined)
    throw invalidArgument(
      `${modelDir}: suppress_tokens, begin_suppress_tokens or lang_to_id: expected ids below ${vocabSize}, got ${wrong}`,
    );
  return new Map([...named, ["*", speechProcessor(rules)]]);
}

async function loadPostProcessors(path: string | undefined): Promise<LogitsPostProcessors> {
  if (path === undefined) return NO_POST_PROCESSORS;
  let module: { readonly logitsPostProcessors?: unknown };
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module;
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `logits post-processor ${path} cannot be loaded: ${message}`, { cause });
  }
  const { logitsPostProcessors: named } = module;
  const entries = typeof named === "object" && named !== null ? Object.entries(named) : [];
  if (entries.length > 0 && entries.every(isPostProcessor)) return new Map(entries.filter(isPostProcessor));
  throw invalidArgument(
    `logits post-processor ${path} must export 'logitsPostProcessors', an object of functions by name`,
  );
}

function isPostProcessor(entry: [string, unknown]): entry is [string, LogitsPostProcessor] {
  return typeof entry[1] === "function";
}
