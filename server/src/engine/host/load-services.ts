/** Finds what a model folder offers an engine beside weights: its tokenizer, grammars over it, functions on logits. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ServerError } from "../../core/server-error.ts";
import { loadTokenizer } from "../../formats/tokenizer-files.ts";
import type { EngineServices } from "../engine-services.ts";
import type { EngineSpec } from "../engine-spec.ts";
import { GrammarGuides } from "../guide/grammar-guides.ts";
import { type LogitsPostProcessor, type LogitsPostProcessors, NO_POST_PROCESSORS } from "../logits-post-processor.ts";

/** @throws ServerError when there is a tokenizer or a module, and it cannot be used */
export async function loadServices(spec: EngineSpec, vocabSize: number): Promise<EngineServices> {
  const postProcessors = await loadPostProcessors(spec.postProcessorModule);
  if (!existsSync(join(spec.modelDir, "tokenizer.json"))) return { postProcessors };
  const tokenizer = await loadTokenizer(spec.modelDir);
  return { postProcessors, tokenizer, guides: new GrammarGuides({ tokenizerDir: spec.modelDir, vocabSize }) };
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
  throw new ServerError(
    "invalid_argument",
    `logits post-processor ${path} must export 'logitsPostProcessors', an object of functions by name`,
  );
}

function isPostProcessor(entry: [string, unknown]): entry is [string, LogitsPostProcessor] {
  return typeof entry[1] === "function";
}
