/**
 * The process of an encoder: a model whose answers are vectors, on libllama or on our engine. It may crash without the
 * server. The code of the engine that does not serve the model is not loaded.
 */
import { ServerError } from "../../core/server-error.ts";
import { readGgufSummary } from "../../formats/gguf/gguf.ts";
import { serveWorkerCalls } from "../../worker-process/serve-calls.ts";
import type { EncoderData, EncoderFacts, EncoderJob, EncoderResult } from "./messages.ts";

interface OpenEncoder {
  readonly facts: EncoderFacts;
  encode(texts: EncoderJob["texts"]): Promise<Float32Array>;
}

await serveWorkerCalls(async (data) => {
  const { facts, encode } = await open(data as EncoderData);
  return async (body): Promise<EncoderFacts | EncoderResult> => {
    if (body === "facts") return facts;
    try {
      return { values: await encode((body as EncoderJob).texts) };
    } catch (error) {
      throw refusal(error);
    }
  };
});

async function open(data: EncoderData): Promise<OpenEncoder> {
  try {
    return data.path.endsWith(".gguf") ? await openGguf(data) : await openFolder(data);
  } catch (error) {
    throw refusal(error);
  }
}

async function openGguf({ path, pooling, maxTokens, numThreads }: EncoderData): Promise<OpenEncoder> {
  if (pooling === "max") throw new Error(`${path}: pooling 'max' takes a Hugging Face folder, and this is a GGUF file`);
  await readGgufSummary(path); // libllama is not to see a header that is not sound
  const { LlamaEncoder } = await import("../../device/llama/llama-encoder.ts");
  const encoder = await LlamaEncoder.open({ path, pooling, maxTokens, numThreads });
  const { width, description } = encoder;
  const facts = { width, description, engine: "llama.cpp", isClassifier: pooling === "rank" };
  return { facts, encode: (texts) => encoder.encode(texts) };
}

async function openFolder({ path, pooling, maxTokens, numThreads }: EncoderData): Promise<OpenEncoder> {
  if (pooling === "none")
    throw new Error(`${path}: pooling 'none' takes a GGUF file, and this is a Hugging Face folder`);
  const { TextEncoder } = await import("../../engine/encoder/text-encoder.ts");
  const encoder = await TextEncoder.open({ path, pooling, maxTokens, numThreads });
  const { width, description, isClassifier } = encoder;
  return { facts: { width, description, engine: "nereid", isClassifier }, encode: (texts) => encoder.encode(texts) };
}

function refusal(error: unknown): ServerError {
  return new ServerError("invalid_argument", error instanceof Error ? error.message : String(error));
}
