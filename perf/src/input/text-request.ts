/** Requests to language models as HTTP: OpenAI's API and Triton's generate extension. Pure. */
import { httpRequestBytes } from "../load/http-client.ts";

export const TEXT_ENDPOINTS = ["chat", "completions", "generate", "generate_stream"] as const;
export type TextEndpoint = (typeof TEXT_ENDPOINTS)[number];

export interface TextRequest {
  readonly model: string;
  readonly prompt: string;
  readonly inputTokens: number;
  /** Undefined: the server's limit. */
  readonly outputTokens: number | undefined;
  /** Data URLs, for chats. */
  readonly images: readonly string[];
}

export interface TextRequestForm {
  readonly endpoint: TextEndpoint;
  /** In place of the endpoint's own. */
  readonly path: string | undefined;
  readonly prefix: string;
  readonly host: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly isStreamed: boolean;
  /** Further members of each body. */
  readonly extra: Readonly<Record<string, unknown>>;
}

export function encodeTextRequest(request: TextRequest, form: TextRequestForm): Uint8Array {
  const { endpoint, isStreamed, extra, headers, host, prefix } = form;
  const isOpenAi = endpoint === "chat" || endpoint === "completions";
  const limit = request.outputTokens === undefined ? {} : { max_tokens: request.outputTokens };
  const stream = isOpenAi && isStreamed ? { stream: true, stream_options: { include_usage: true } } : {};
  const body = isOpenAi
    ? { model: request.model, ...promptOf(request, endpoint), ...limit, ...stream, ...extra }
    : { text_input: request.prompt, ...limit, ...(isStreamed && { stream: true }), ...extra };
  const path = form.path ?? pathOf(request.model, endpoint, isStreamed);
  return httpRequestBytes(
    {
      method: "POST",
      path: `${prefix}${path}`,
      headers: [["Content-Type", "application/json"], ...headers],
      body: Buffer.from(JSON.stringify(body)),
    },
    host,
  );
}

function promptOf({ prompt, images }: TextRequest, endpoint: TextEndpoint): object {
  if (endpoint === "completions") return { prompt };
  const content =
    images.length === 0
      ? prompt
      : [{ type: "text", text: prompt }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))];
  return { messages: [{ role: "user", content }] };
}

function pathOf(model: string, endpoint: TextEndpoint, isStreamed: boolean): string {
  if (endpoint === "chat") return "/v1/chat/completions";
  if (endpoint === "completions") return "/v1/completions";
  return `/v2/models/${encodeURIComponent(model)}/generate${isStreamed ? "_stream" : ""}`;
}
