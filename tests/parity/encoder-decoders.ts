/** The recorded models with an encoder and a decoder. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { EncoderInput } from "../../server/src/engine/request/encoder-input.ts";

export const ENCODER_DECODERS: string = fileURLToPath(new URL("encoder-decoders/", import.meta.url));

export interface EncoderDecoder {
  /** Ids of a text, or frames of sound. */
  readonly encoder?: readonly number[];
  readonly frames?: readonly (readonly number[])[];
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
  readonly logits: readonly (readonly number[])[];
}

export function readEncoderDecoder(name: string): EncoderDecoder {
  return JSON.parse(readFileSync(`${ENCODER_DECODERS}${name}/expected.json`, "utf8")) as EncoderDecoder;
}

export function encoderInputOf({ encoder, frames = [] }: EncoderDecoder): EncoderInput {
  if (encoder !== undefined) return { kind: "tokens", tokens: Int32Array.from(encoder) };
  return { kind: "frames", values: Float32Array.from(frames.flat()), width: frames[0]?.length ?? 0 };
}
