/** Whether a model answers OpenAI's, Anthropic's and Ollama's APIs, with which fields, and why not: by its tensors' names. */
import type { ModelConfig } from "@nereid/server/core/model-config";
import type { ServedModel, TensorMetadata } from "@nereid/server/core/model-server";
import { signatureOf, tensorMetadata } from "@nereid/server/core/model-signature";
import { embeddingSignature } from "@nereid/server/text-model/embedding-signature";
import { parameterText } from "@nereid/server/text-model/model-folders";
import { adapterNames, servedNames } from "@nereid/server/text-model/text-models";
import { type TextSignature, textSignature } from "@nereid/server/text-model/text-signature";
import { chatFields } from "./chat-fields.ts";
import type { ExaminedModel } from "./examined-model.ts";

const TEXT_ROUTES = "/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages and /api/chat";

/** Notes only: a model need not be one of text. */
export function checkChat(model: ExaminedModel): void {
  const { config } = model;
  if (config === undefined || !model.isLoadable) return;
  if (config.backend === "python" && (config.input.length === 0 || config.output.length === 0)) {
    const problem = "whether it is a chat model is not known: its tensors come from auto_complete_config";
    model.add("note", problem, "Declare input and output in config.pbtxt, or ask the running server: GET /v1/models");
    return;
  }
  if (!hasText(config)) return;
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
  addSignature(model, tensors, signature);
}

/** The tensors of text, and the names by which clients call the model. */
function addSignature(model: ExaminedModel, { config }: Pick<ServedModel, "config">, signature: TextSignature): void {
  const { kind, inputs, outputs } = signature;
  const nameOf = (name: string | undefined, otherwise: string): string => `'${name ?? otherwise}'`;
  const input = nameOf(inputs.get("text")?.name, "messages");
  const how =
    kind === "tokens" ? "token ids" : `text in ${input}, answer in ${nameOf(outputs.get("text")?.name, "text_output")}`;
  const adapters = adapterNames({ config }).map((adapter) => `${model.name}:${adapter}`);
  const names = [model.name, ...servedNames({ config }), ...adapters].map((name) => `'${name}'`).join(", ");
  const fix = `Call it as model ${names} of ${TEXT_ROUTES}`;
  model.add("note", `it is a chat model: ${how}`, fix);
  if (kind === "text") addFields(model, { config }, signature);
}

function addFields(model: ExaminedModel, served: Pick<ServedModel, "config">, signature: TextSignature): void {
  const { carried, ignored, refused } = chatFields(signature);
  const template = parameterText(served, "chat_template") ?? parameterText(served, "tokenizer_dir");
  const isOwn = signature.jsonInputs.some(({ name }) => name === "messages");
  const parts = [
    carried.length === 0 ? "no field of a request has an input" : `inputs of request fields: ${carried.join(", ")}`,
    ...(ignored.length === 0 ? [] : [`ignored: ${ignored.join(", ")}`]),
    ...(refused.length === 0 ? [] : [`refused: ${refused.join(", ")}`]),
    ...(template === undefined && !isOwn ? ["the prompt has a line 'role: text' for each message"] : []),
  ];
  model.add("note", parts.join("; "), "For more, declare optional inputs of these names: docs/openai.md");
}

function hasText({ input, output }: ModelConfig): boolean {
  const isText = ({ data_type }: { readonly data_type: string }): boolean => data_type === "TYPE_STRING";
  return input.some(isText) || output.some(isText) || output.some(({ name }) => name === "output_ids");
}
