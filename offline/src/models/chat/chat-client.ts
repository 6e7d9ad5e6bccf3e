/**
 * One chat completion of a server, streamed. Sources: OpenAI's API reference, "Create chat completion", and Server-Sent
 * Events (WHATWG HTML, 9.2).
 */
import { isObject } from "@nereid/server/core/json-object";
import { ToolError } from "@nereid/server/files/tool-error";
import { type HttpAnswer, isOk, requestUrl, textOf } from "./http-request.ts";

export type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string | readonly ContentPart[];
}

export interface ChatServer {
  /** Without a trailing slash. */
  readonly url: string;
  readonly model: string;
  readonly apiKey: string | undefined;
}

export interface ChatPart {
  readonly kind: "text" | "reasoning";
  readonly text: string;
}

export interface ChatUsage {
  readonly promptTokens: number;
  readonly outputTokens: number;
}

export interface ChatAnswer {
  readonly text: string;
  readonly usage: ChatUsage | undefined;
  /** `stop`, `length`. */
  readonly finishReason: string | undefined;
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** Fields of the request body, such as `temperature`. */
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  readonly onPart: (part: ChatPart) => void;
}

/** @throws ToolError with the server's message, or the reason of the signal */
export async function chat(server: ChatServer, request: ChatRequest): Promise<ChatAnswer> {
  const { messages, sampling, signal } = request;
  const body = { model: server.model, messages, ...sampling, stream: true, stream_options: { include_usage: true } };
  const response = await post(server, "/v1/chat/completions", body, signal);
  if (!isOk(response)) throw await refusal(response);
  const answer = new AnswerReader(request.onPart);
  for await (const data of eventData(response)) answer.read(data);
  return answer.result();
}

export function headersOf({ apiKey }: Pick<ChatServer, "apiKey">): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
}

async function post(server: ChatServer, path: string, body: unknown, signal: AbortSignal): Promise<HttpAnswer> {
  const headers = { "content-type": "application/json", ...headersOf(server) };
  try {
    return await requestUrl(`${server.url}${path}`, { headers, body: JSON.stringify(body), signal });
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new ToolError(`The server at ${server.url} does not answer`, {
      cause,
      fix: "Check that it still runs: nereid ps",
    });
  }
}

async function refusal(response: HttpAnswer): Promise<ToolError> {
  const text = await textOf(response);
  return new ToolError(errorMessage(text) ?? `the server answers ${response.status}: ${text.slice(0, 200)}`);
}

function errorMessage(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const error = isObject(value) ? value.error : undefined;
    return isObject(error) && typeof error.message === "string" ? error.message : undefined;
  } catch {
    return undefined;
  }
}

/** The `data` of each event up to `[DONE]`. This server writes one line of data an event. */
async function* eventData({ body }: HttpAnswer): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice("data:".length).trim();
      if (data === "[DONE]") return;
      yield data;
    }
  }
}

/** Collects the chunks of one answer. */
class AnswerReader {
  readonly #onPart: (part: ChatPart) => void;
  #text = "";
  #usage: ChatUsage | undefined;
  #finishReason: string | undefined;

  constructor(onPart: (part: ChatPart) => void) {
    this.#onPart = onPart;
  }

  /** @throws ToolError for an error in the stream */
  read(data: string): void {
    const message = errorMessage(data);
    if (message !== undefined) throw new ToolError(message);
    const chunk: unknown = JSON.parse(data);
    if (!isObject(chunk)) return;
    const { usage, choices } = chunk;
    if (isObject(usage)) {
      this.#usage = {
        promptTokens: Number(usage.prompt_tokens ?? 0),
        outputTokens: Number(usage.completion_tokens ?? 0),
      };
    }
    const [choice]: unknown[] = Array.isArray(choices) ? choices : [];
    if (isObject(choice)) this.#readChoice(choice);
  }

  result(): ChatAnswer {
    return { text: this.#text, usage: this.#usage, finishReason: this.#finishReason };
  }

  #readChoice({ delta, finish_reason: reason }: Readonly<Record<string, unknown>>): void {
    if (typeof reason === "string") this.#finishReason = reason;
    if (!isObject(delta)) return;
    const { content, reasoning_content: reasoning } = delta;
    if (typeof reasoning === "string" && reasoning !== "") this.#onPart({ kind: "reasoning", text: reasoning });
    if (typeof content !== "string" || content === "") return;
    this.#text += content;
    this.#onPart({ kind: "text", text: content });
  }
}
