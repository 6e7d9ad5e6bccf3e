/** Whether a model answers OpenAI's, Anthropic's and Ollama's APIs, and why not: by the names of its tensors. */
import type { ModelConfig } from "@nereid/server/core/model-config";
import type { TensorMetadata } from "@nereid/server/core/model-server";
import { signatureOf, tensorMetadata } from "@nereid/server/core/model-signature";
import { embeddingSignature } from "@nereid/server/text-model/embedding-signature";
import { textSignature } from "@nereid/server/text-model/text-signature";
import type { ExaminedModel } from "./examined-model.ts";

/** Notes only: a model need not be one of text. */
export function checkChat(model: ExaminedModel): void {
  const { config } = model;
  if (config === undefined || !model.isLoadable || !hasText(config)) return;
  const { inputs, outputs, maxBatchSize } = signatureOf(config);
  const metadata = (tensors: Iterable<Parameters<typeof tensorMetadata>[0]>): Map<string, TensorMetadata> =>
    new Map([...tensors].map((tensor) => [tensor.name, tensorMetadata(tensor, maxBatchSize)]));
  const tensors = { config, inputs: metadata(inputs.values()), outputs: metadata(outputs.values()) };
  const embedding = embeddingSignature(tensors);
  if (embedding !== undefined) {
    const route = { embeddings: "/v1/embeddings", score: "/v1/score", classify: "/v1/classify" }[embedding.kind];
    model.add("note", `it serves ${route}: text from '${embedding.text.name}'`, `Call it as model '${model.name}'`);
    return;
  }
  const signature = textSignature(tensors);
  if ("reason" in signature) {
    const fix = "If it should chat: name its tensors as in docs/openai.md, or leave it as it is";
    model.add("note", `it is no chat model: ${signature.reason}`, fix);
    return;
  }
  const how =
    signature.kind === "tokens" ? "token ids" : `text in '${signature.inputs.get("text")?.name ?? "messages"}'`;
  model.add("note", `it is a chat model: ${how}`, `Call it as model '${model.name}' of /v1/chat/completions`);
}

function hasText({ input, output }: ModelConfig): boolean {
  const isText = ({ data_type }: { readonly data_type: string }): boolean => data_type === "TYPE_STRING";
  return input.some(isText) || output.some(isText) || output.some(({ name }) => name === "output_ids");
}
