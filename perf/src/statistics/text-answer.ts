/** Text of an answer of a language model, and when it came: server-sent events (WHATWG HTML, 9.2) or one JSON body. Pure. */
import type { KeptAnswer } from "../load/load-messages.ts";

export interface TextAnswer {
  readonly request: number;
  readonly startMs: number;
  /** When each event with text came, ms; one for an answer that is not streamed. */
  readonly textMs: readonly number[];
  readonly text: string;
  /** As the server counts. */
  readonly completionTokens: number | undefined;
  readonly failure: string | undefined;
}

const EVENT_END = Buffer.from("\n\n");

export function readAnswer(answer: KeptAnswer): TextAnswer {
  const { request, startMs, failure, parts, partsMs } = answer;
  const bytes = Buffer.from(parts.join(""), "latin1");
  const events = eventsOf(bytes, parts, partsMs);
  const isStream = bytes.subarray(0, 5).toString() === "data:";
  const pieces = isStream ? events : [{ atMs: partsMs.at(-1) ?? answer.endMs, json: bytes.toString() }];
  const texts: string[] = [];
  const textMs: number[] = [];
  let completionTokens: number | undefined;
  let own = failure;
  for (const { atMs, json } of failure === undefined ? pieces : []) {
    const { text, tokens, error } = readPiece(json);
    own ??= error;
    completionTokens = tokens ?? completionTokens;
    if (text === "") continue;
    texts.push(text);
    textMs.push(atMs);
  }
  if (own === undefined && textMs.length === 0) own = "the answer holds no text";
  return { request, startMs, textMs, text: texts.join(""), completionTokens, failure: own };
}

/** An event came when the part with its end did. */
function eventsOf(
  bytes: Buffer,
  parts: readonly string[],
  partsMs: Float64Array,
): readonly { readonly atMs: number; readonly json: string }[] {
  const events: { atMs: number; json: string }[] = [];
  let from = 0;
  let part = 0;
  let partEnd = parts[0]?.length ?? 0;
  for (let end = bytes.indexOf(EVENT_END); end >= 0; end = bytes.indexOf(EVENT_END, from)) {
    while (partEnd < end + EVENT_END.length && part + 1 < parts.length) partEnd += parts[++part]?.length ?? 0;
    const json = bytes.toString("utf8", from, end).replace(/^data: ?/, "");
    if (json !== "[DONE]") events.push({ atMs: partsMs[part] ?? Number.NaN, json });
    from = end + EVENT_END.length;
  }
  return events;
}

interface Piece {
  readonly text: string;
  readonly tokens: number | undefined;
  readonly error: string | undefined;
}

interface AnswerMessage {
  readonly error?: unknown;
  readonly text_output?: unknown;
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly choices?: readonly {
    readonly text?: string | null;
    readonly delta?: ChatMessage;
    readonly message?: ChatMessage;
  }[];
}

interface ChatMessage {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
}

function readPiece(json: string): Piece {
  let message: AnswerMessage;
  try {
    message = JSON.parse(json) as AnswerMessage;
  } catch {
    return { text: "", tokens: undefined, error: `expected JSON, got '${json.slice(0, 100)}'` };
  }
  if (message.error !== undefined) return { text: "", tokens: undefined, error: JSON.stringify(message.error) };
  const [choice] = message.choices ?? [];
  const chat = choice?.delta ?? choice?.message;
  const text = choice?.text ?? `${chat?.reasoning_content ?? ""}${chat?.content ?? ""}`;
  const output = message.text_output;
  const own = typeof output === "string" ? output : Array.isArray(output) ? output.join("") : "";
  return { text: text + own, tokens: message.usage?.completion_tokens, error: undefined };
}
