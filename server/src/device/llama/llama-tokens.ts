/**
 * Texts to token ids by a model's own vocabulary in libllama, whatever its kind. Pairs of texts are joined as llama.cpp's server
 * joins them for rerank models. Source: llama.h and tools/server of llama.cpp 0.5.0.
 */
import type { LlamaModel } from "./llama-model.ts";

const NO_TOKEN = -1;

/** `addsSpecial`: with the special tokens that the model has around a text. */
export function tokenize({ llama, vocabulary }: LlamaModel, text: string, addsSpecial: boolean): Int32Array {
  const bytes = Buffer.from(text, "utf8");
  const run = (tokens: Int32Array): number =>
    llama.functions.tokenize(vocabulary, bytes, bytes.length, tokens, tokens.length, addsSpecial, false);
  const tokens = new Int32Array(bytes.length + 8);
  const count = run(tokens);
  if (count >= 0) return tokens.subarray(0, count);
  const larger = new Int32Array(-count); // normalization may make a text longer
  return larger.subarray(0, Math.max(0, run(larger)));
}

/** By the file's template for rerank models, else with the tokens for begin, end and separator that the model adds. */
export function tokenizePair(model: LlamaModel, text: string, pair: string): Int32Array {
  const { llama, vocabulary, address } = model;
  const { functions } = llama;
  const template = functions.chatTemplate(address, "rerank");
  if (template !== null) {
    const prompt = template.replaceAll("{query}", () => text).replaceAll("{document}", () => pair);
    return tokenizeSpecial(model, prompt);
  }
  const end = functions.endToken(vocabulary);
  const separator = functions.separatorToken(vocabulary);
  const ending = end === NO_TOKEN ? separator : end;
  return Int32Array.from([
    ...(functions.addsBegin(vocabulary) ? [functions.beginToken(vocabulary)] : []),
    ...tokenize(model, text, false),
    ...(functions.addsEnd(vocabulary) ? [ending] : []),
    ...(functions.addsSeparator(vocabulary) ? [separator] : []),
    ...tokenize(model, pair, false),
    ...(functions.addsEnd(vocabulary) ? [ending] : []),
  ]);
}

/** Special tokens are written in the text. */
function tokenizeSpecial({ llama, vocabulary }: LlamaModel, text: string): Int32Array {
  const bytes = Buffer.from(text, "utf8");
  const tokens = new Int32Array(bytes.length + 8);
  const count = llama.functions.tokenize(vocabulary, bytes, bytes.length, tokens, tokens.length, true, true);
  return tokens.subarray(0, Math.max(0, count));
}
