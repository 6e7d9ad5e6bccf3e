/**
 * The process of an encoder: libllama with a model whose answers are vectors. It may crash without the server. Texts are
 * tokenized by libllama, whose kinds of vocabularies are those of its models.
 */
import { ServerError } from "../../core/server-error.ts";
import { LlamaEncoder } from "../../device/llama/llama-encoder.ts";
import { readGgufSummary } from "../../formats/gguf/gguf.ts";
import { serveWorkerCalls } from "../../worker-process/serve-calls.ts";
import type { EncoderData, EncoderFacts, EncoderJob, EncoderResult } from "./messages.ts";

await serveWorkerCalls(async (data) => {
  const { path, pooling, maxTokens, numThreads } = data as EncoderData;
  const encoder = await open(path, pooling, maxTokens, numThreads);
  return async (body): Promise<EncoderFacts | EncoderResult> => {
    if (body === "facts") return { width: encoder.width, description: encoder.description };
    const { texts } = body as EncoderJob;
    try {
      return { values: await encoder.encode(texts) };
    } catch (error) {
      throw new ServerError("invalid_argument", error instanceof Error ? error.message : String(error));
    }
  };
});

async function open(
  path: string,
  pooling: EncoderData["pooling"],
  maxTokens: number,
  numThreads: number,
): Promise<LlamaEncoder> {
  try {
    await readGgufSummary(path); // libllama is not to see a header that is not sound
    return await LlamaEncoder.open({ path, pooling, maxTokens, numThreads });
  } catch (error) {
    throw new ServerError("invalid_argument", error instanceof Error ? error.message : String(error));
  }
}
