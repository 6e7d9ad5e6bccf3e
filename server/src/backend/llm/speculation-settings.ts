/**
 * How a model drafts tokens ahead, from its parameters. TensorRT-LLM's lookahead decoding becomes the look-up of n-grams,
 * which needs no model either; a draft model is a parameter of Nereid's own. Pure: paths are not looked at.
 */
import { resolve } from "node:path";
import { MAX_LLM_DRAFT_TOKENS } from "../../core/limits.ts";
import type { ServerError } from "../../core/server-error.ts";
import type { SpeculationConfig } from "../../engine/speculation/speculation-config.ts";

export interface SpeculationSettings {
  readonly config: SpeculationConfig;
  /** Absolute path of the folder or file of a smaller model with the same vocabulary, or of the folder of an EAGLE-3 head. */
  readonly draftModel: string | undefined;
  /** Drafts come from the model's own layer of multi-token prediction. */
  readonly usesMtp: boolean;
}

/** The model that the parameters belong to. */
export interface SpeculationParameters {
  text(key: string): string | undefined;
  int(key: string): number | undefined;
  flag(key: string): boolean | undefined;
  note(text: string): void;
  error(key: string, expected: string, text: string): ServerError;
}

const DEFAULT_DRAFT_TOKENS = 5;
const DEFAULT_NGRAM_SIZE = 3;
/** Modes whose drafts come from heads of the checkpoint, which are not read. */
const MODES_WITH_HEADS = ["medusa", "redrafter"];

export function parseSpeculation(parameters: SpeculationParameters, modelFolder: string): SpeculationSettings {
  const draftModel = parameters.text("speculative_model");
  const usesMtp = parameters.flag("speculative_mtp") ?? false;
  if (usesMtp && draftModel !== undefined)
    throw parameters.error("speculative_mtp", "false beside a 'speculative_model'", "true");
  const ngramSize = parseNgramSize(parameters, draftModel !== undefined);
  const isOn = draftModel !== undefined || usesMtp || ngramSize > 0;
  return {
    config: { maxDraftTokens: isOn ? parseDraftTokens(parameters) : 0, ngramSize },
    draftModel: draftModel === undefined ? undefined : resolve(modelFolder, draftModel),
    usesMtp,
  };
}

function parseNgramSize(parameters: SpeculationParameters, hasModel: boolean): number {
  const own = parameters.int("speculative_ngram_size");
  if (own !== undefined) return own;
  const mode = parameters.text("decoding_mode");
  if (mode !== undefined && MODES_WITH_HEADS.includes(mode)) {
    parameters.note(
      `decoding_mode is '${mode}': heads of the checkpoint are not read, tokens are generated one by one`,
    );
  }
  if (mode === "eagle" && !hasModel)
    parameters.note("decoding_mode is 'eagle' without a 'speculative_model': tokens are generated one by one");
  const lookahead = parameters.int("lookahead_ngram_size");
  if (mode !== "lookahead" && lookahead === undefined) return 0;
  parameters.note(
    "lookahead decoding looks n-grams up in the prompt and the output; " +
      "lookahead_window_size and lookahead_verification_set_size have no effect",
  );
  return Math.max(2, lookahead ?? DEFAULT_NGRAM_SIZE);
}

function parseDraftTokens(parameters: SpeculationParameters): number {
  const count = parameters.int("num_draft_tokens") ?? DEFAULT_DRAFT_TOKENS;
  if (count >= 1 && count <= MAX_LLM_DRAFT_TOKENS) return count;
  throw parameters.error("num_draft_tokens", `1 to ${MAX_LLM_DRAFT_TOKENS}`, String(count));
}
