/** Input of a model's encoder in a request: the ids of a text, or frames of sound. Pure. */
import { createHash } from "node:crypto";

export type EncoderInput =
  | { readonly kind: "tokens"; readonly tokens: Int32Array }
  /** [numFrames, width], as the model's feature extractor makes them. */
  | { readonly kind: "frames"; readonly values: Float32Array; readonly width: number };

/** Encoders of models, as requests must fit them. Absent: a model without one. */
export type EncoderLimits =
  | { readonly kind: "tokens"; readonly maxRows: number; readonly vocabSize: number }
  /** `width`: numbers of a frame. Two frames become a row. */
  | { readonly kind: "frames"; readonly maxRows: number; readonly width: number };

/** Frames that become a row of the encoder. */
export const FRAMES_PER_ROW = 2;

/** Rows of the encoder, and so keys that each row of the decoder sees. */
export function encoderRows(input: EncoderInput): number {
  if (input.kind === "tokens") return input.tokens.length;
  return Math.ceil(input.values.length / input.width / FRAMES_PER_ROW);
}

/** Why an encoder cannot take an input; undefined when it can. */
export function encoderRefusal(input: EncoderInput | undefined, limits: EncoderLimits | undefined): string | undefined {
  if (limits === undefined)
    return input === undefined ? undefined : "the request has an input for an encoder, and the model has none";
  if (input === undefined) return MISSING[limits.kind];
  if (input.kind === "tokens")
    return limits.kind === "tokens" ? tokenRefusal(input.tokens, limits) : wrongKind(input, limits);
  return limits.kind === "frames" ? frameRefusal(input, limits) : wrongKind(input, limits);
}

const MISSING: Readonly<Record<EncoderLimits["kind"], string>> = {
  tokens:
    "the model has an encoder, whose input is missing: its ids are 'input_ids', those of the decoder 'decoder_input_ids'",
  frames: "the model has an encoder of sound, whose input is missing: 'encoder_input_features' of [frames, mel bins]",
};

function wrongKind({ kind }: EncoderInput, limits: EncoderLimits): string {
  return `the input of the encoder is ${kind}, expected ${limits.kind}`;
}

type Limits<Kind> = Extract<EncoderLimits, { readonly kind: Kind }>;

function tokenRefusal(tokens: Int32Array, { maxRows, vocabSize }: Limits<"tokens">): string | undefined {
  const { length } = tokens;
  if (length < 1 || length > maxRows) return `the input of the encoder has ${length} tokens, expected 1 to ${maxRows}`;
  const wrong = tokens.findIndex((id) => id < 0 || id >= vocabSize);
  return wrong < 0
    ? undefined
    : `encoder id ${tokens[wrong]} at position ${wrong} is outside the vocabulary, expected 0 to ${vocabSize - 1}`;
}

function frameRefusal(
  { values, width }: Extract<EncoderInput, { readonly kind: "frames" }>,
  { maxRows, width: expected }: Limits<"frames">,
): string | undefined {
  if (width !== expected || values.length % width !== 0)
    return `the frames of the encoder have ${width} numbers, expected ${expected} (the model's mel bins)`;
  const [count, most] = [values.length / width, maxRows * FRAMES_PER_ROW];
  if (count < 1 || count > most) return `the input of the encoder has ${count} frames, expected 1 to ${most}`;
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  return wrong < 0 ? undefined : `number ${wrong} of the encoder's frames is ${values[wrong]}, expected a finite one`;
}

/** Tells the encoder inputs of sequences apart: what the decoder caches depends on them. */
export function encoderKey(input: EncoderInput): string {
  const values = input.kind === "tokens" ? input.tokens : input.values;
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return createHash("sha256").update(input.kind).update(bytes).digest("base64");
}
