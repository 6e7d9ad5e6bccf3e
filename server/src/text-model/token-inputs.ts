/** Inputs of TensorRT-LLM's engine model, which takes token ids. Pure. */
import type { Tokenizer } from "../formats/tokenizer/tokenizer.ts";
import { FieldError } from "./field-error.ts";
import type { InputList } from "./request-inputs.ts";
import type { TextRequest } from "./text-request.ts";

interface TokenFacts {
  readonly tokenizer: Tokenizer;
  readonly vocabularySize: number | undefined;
}

/** @throws FieldError */
export function addTokenInputs(
  list: InputList,
  request: TextRequest,
  facts: TokenFacts,
  promptTokens: Int32Array,
): void {
  list.require("tokens", "prompt", promptTokens);
  list.offer("tokenCount", promptTokens.length);
  list.offer("cacheStats", true);
  addScores(list, request);
  addBias(list, request, facts);
}

function addScores(list: InputList, { logProbs, promptLogProbs }: TextRequest): void {
  if (logProbs !== undefined) list.require("logProbs", "logProbs", [true]);
  if (promptLogProbs !== undefined) list.require("promptLogProbs", "promptLogProbs", [true]);
  const count = Math.max(logProbs ?? 0, promptLogProbs ?? 0);
  if (count > 0) list.require("topLogProbs", "logProbs", [count]);
}

/** One value for each token of the vocabulary. */
function addBias(list: InputList, { logitBias }: TextRequest, { tokenizer, vocabularySize }: TokenFacts): void {
  if (logitBias.size === 0) return;
  const size = vocabularySize ?? tokenizer.vocabularySize;
  const values = new Float32Array(size);
  for (const [id, bias] of logitBias) {
    if (id >= size) {
      throw new FieldError("value", "logitBias", `token id ${id} is not in the vocabulary of ${size} tokens`);
    }
    values[id] = bias;
  }
  list.require("logitBias", "logitBias", values);
}
