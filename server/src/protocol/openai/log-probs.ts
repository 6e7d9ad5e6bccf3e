/** Log-probabilities in the forms of both APIs. Source: OpenAI's API reference, `logprobs`. Pure. */
import type { TokenLogProb, TokenScore } from "../../text-model/text-request.ts";

/** OpenAI's value for a probability of nothing. */
const LOWEST = -9999;

interface ChatToken {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

export interface ChatLogProbs {
  readonly content: readonly (ChatToken & { readonly top_logprobs: readonly ChatToken[] })[];
  readonly refusal: null;
}

export function chatLogProbs(scores: readonly TokenScore[]): ChatLogProbs {
  const content = scores.map((score) => ({ ...chatToken(score), top_logprobs: score.top.map(chatToken) }));
  return { content, refusal: null };
}

function chatToken({ text, bytes, logProb }: TokenLogProb): ChatToken {
  return { token: text, logprob: Math.max(LOWEST, logProb), bytes: [...bytes] };
}

export interface CompletionLogProbs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  /** Offset of each token in the text of the choice. */
  readonly text_offset: readonly number[];
}

/** `startOffset`: characters of the choice that earlier chunks held. */
export function completionLogProbs(scores: readonly TokenScore[], startOffset: number): CompletionLogProbs {
  const texts = scores.map(({ text }) => text);
  let offset = startOffset;
  const offsets = texts.map((text) => {
    const start = offset;
    offset += text.length;
    return start;
  });
  return {
    tokens: texts,
    token_logprobs: scores.map(({ logProb }) => (Number.isNaN(logProb) ? null : Math.max(LOWEST, logProb))),
    top_logprobs: scores.map((score) => (Number.isNaN(score.logProb) ? null : topOf(score))),
    text_offset: offsets,
  };
}

/** The chosen token is among them, as in OpenAI's answers. */
function topOf(score: TokenScore): Readonly<Record<string, number>> {
  const entries = score.top.map(({ text, logProb }) => [text, Math.max(LOWEST, logProb)] as const);
  return Object.fromEntries([...entries, [score.text, Math.max(LOWEST, score.logProb)]]);
}
