/** Where the tokens of a pipeline come from: the engine model alone, or one that checks what another one drafted. */
import type { InferRequest } from "../../core/infer-request.ts";
import type { InferResponse } from "../../core/infer-response.ts";
import { ServerError } from "../../core/server-error.ts";
import type { ModelCaller } from "../backend.ts";
import type { BlsSettings } from "./bls-settings.ts";

export interface Generation {
  /** The request to the engine model, complete. */
  readonly request: InferRequest;
  /** Tokens to draft at a time; 0 = no speculation. */
  readonly numDraftTokens: number;
}

/** The engine's responses. @throws ServerError when speculation is asked for and there is nothing to draft with */
export function generate(
  models: Pick<ModelCaller, "infer">,
  settings: BlsSettings,
  { request, numDraftTokens }: Generation,
): AsyncIterable<InferResponse> {
  if (numDraftTokens <= 0) return models.infer(request);
  if (settings.draftEngine === undefined) {
    throw new ServerError("invalid_argument", "cannot perform speculative decoding without draft model");
  }
  throw new ServerError(
    "unsupported",
    `input 'num_draft_tokens' is ${numDraftTokens}: drafting with model '${settings.draftEngine}' is not supported`,
  );
}
