/**
 * Drops the oldest turns of a conversation that is longer than the model's context. A turn begins with a user's message, so
 * that no result loses its call; the system's messages stay. Source: OpenAI's API reference, `truncation`.
 */
import type { TextModel } from "../../../text-model/text-model.ts";
import type { Prompt } from "../../../text-model/text-request.ts";
import type { ReadMessage } from "../chat/messages.ts";
import type { PreparedChat } from "../chat/prompt.ts";

type Messages = readonly ReadMessage[];

/** Part of the context that is kept free for an answer whose length the request does not bound. */
const ANSWER_SHARE = 8;
const MAX_TOKENS_OF_CHAR = 4;

/** Renders the messages; of several attempts the last one counts. */
export type Prepare = (messages: Messages) => Promise<PreparedChat>;

/** The shortest cut that leaves room for the answer; the last turn alone where none does. */
export async function prepareFitting(
  model: TextModel,
  messages: Messages,
  maxOutputTokens: number | undefined,
  prepare: Prepare,
): Promise<PreparedChat> {
  const { contextLength, tokenizer } = model.assets;
  const whole = await prepare(messages);
  if (contextLength === undefined || tokenizer === undefined) return whole;
  const room = contextLength - answerRoom(contextLength, maxOutputTokens);
  const fits = async ({ request: { prompt, addSpecialTokens } }: PreparedChat): Promise<boolean> =>
    isShort(prompt, room) || (await model.encode(prompt, addSpecialTokens)).length <= room;
  if (await fits(whole)) return whole;
  const cuts = cutsOf(messages);
  const numDropped = await firstThat(cuts.length - 1, async (i) => fits(await prepare(cuts[i] ?? messages)));
  return prepare(cuts[numDropped] ?? messages);
}

/** Few characters need not be counted in tokens: each is at most that many, its bytes (RFC 3629, 3). */
function isShort(prompt: Prompt, room: number): boolean {
  return "text" in prompt && prompt.text.length * MAX_TOKENS_OF_CHAR <= room;
}

/** Tokens; at most half of the context, so that the conversation has the other. */
function answerRoom(contextLength: number, maxOutputTokens: number | undefined): number {
  const wanted = maxOutputTokens ?? Math.floor(contextLength / ANSWER_SHARE);
  return Math.min(wanted, Math.floor(contextLength / 2));
}

/** The conversation without its first turn, without its first two, and so on to the last turn alone. */
export function cutsOf(messages: Messages): readonly Messages[] {
  const starts = [...messages.keys()].filter((i) => messages[i]?.message.role === "user");
  const isSystem = ({ message: { role } }: ReadMessage): boolean => role === "system" || role === "developer";
  return starts.slice(1).map((start) => [...messages.slice(0, start).filter(isSystem), ...messages.slice(start)]);
}

/** The lowest index whose test holds, if it holds for all behind it; `last` where none holds. */
async function firstThat(last: number, holds: (index: number) => Promise<boolean>): Promise<number> {
  let low = 0;
  let high = last;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (await holds(middle)) high = middle;
    else low = middle + 1;
  }
  return high;
}
