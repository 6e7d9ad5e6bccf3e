/** Errors of a text request that name its field, so that each protocol can name its own. */
import { type ErrorCode, ServerError } from "../core/server-error.ts";

export type TextField =
  | "prompt"
  | "images"
  | "maxTokens"
  | "minTokens"
  | "temperature"
  | "topP"
  | "topK"
  | "minP"
  | "repetitionPenalty"
  | "presencePenalty"
  | "frequencyPenalty"
  | "seed"
  | "badWords"
  | "ignoresEos"
  | "logitBias"
  | "logProbs"
  | "promptLogProbs"
  | "guide"
  | "adapter"
  | "cacheSalt";

/** `unsupported`: the model cannot do it. `context`: the prompt does not fit. `value`: the value is wrong. */
export type FieldFault = "unsupported" | "context" | "value";

export class FieldError extends ServerError {
  readonly field: TextField;
  readonly fault: FieldFault;

  constructor(fault: FieldFault, field: TextField, message: string) {
    const code: ErrorCode = fault === "unsupported" ? "unsupported" : "invalid_argument";
    super(code, message);
    this.field = field;
    this.fault = fault;
  }
}

export function unsupportedField(model: string, field: TextField, why: string): FieldError {
  return new FieldError("unsupported", field, `model '${model}' does not support it: ${why}`);
}
