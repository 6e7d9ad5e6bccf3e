/** Figures of a load of the comparison. Knows no server. */

export interface Spread {
  readonly p50: number;
  readonly p99: number;
}

export interface Row {
  readonly system: string;
  readonly clients: number;
  readonly requests: number;
  readonly seconds: number;
  readonly requestsPerSecond: number;
  readonly tokensPerSecond: number;
  readonly latencyMs: Spread;
  /** Null where the whole answer comes at once. */
  readonly firstTokenMs: Spread | null;
  readonly messages: number;
}

export interface Load {
  readonly system: string;
  readonly clients: number;
  readonly seconds: number;
  readonly outputTokens: number;
  readonly isStreamed: boolean;
}

export interface Timing {
  readonly latencyMs: number;
  readonly firstMs: number;
  readonly numMessages: number;
}

export interface Agreement {
  readonly prompts: number;
  /** Answers that are the same to the end. */
  readonly wholeTexts: number;
  readonly firstTokens: number;
  /** Equal tokens from the start, of each prompt, least first. */
  readonly equalTokens: readonly number[];
}

export function rowOf({ system, clients, seconds, outputTokens, isStreamed }: Load, answers: readonly Timing[]): Row {
  return {
    system,
    clients,
    requests: answers.length,
    seconds: rounded(seconds),
    requestsPerSecond: rounded(answers.length / seconds),
    tokensPerSecond: rounded((answers.length * outputTokens) / seconds),
    latencyMs: spreadOf(answers.map(({ latencyMs }) => latencyMs)),
    firstTokenMs: isStreamed ? spreadOf(answers.map(({ firstMs }) => firstMs)) : null,
    messages: answers.reduce((sum, { numMessages }) => sum + numMessages, 0),
  };
}

/** The nearest rank. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    rounded(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN);
  return { p50: at(0.5), p99: at(0.99) };
}

/** `streamed`: an answer token by token; `whole`: the other system's answer to the same prompt. */
export function agreementOf(streamed: readonly (readonly string[])[], whole: readonly string[]): Agreement {
  const equalTokens = streamed.map((texts, i) => countEqual(texts, whole[i] ?? "")).sort((a, b) => a - b);
  return {
    prompts: whole.length,
    wholeTexts: streamed.filter((texts, i) => texts.join("").trim() === whole[i]?.trim()).length,
    firstTokens: equalTokens.filter((count) => count > 0).length,
    equalTokens,
  };
}

function countEqual(texts: readonly string[], whole: string): number {
  let said = "";
  let count = 0;
  for (const text of texts) {
    said = (said + text).trimStart();
    if (!`${whole.trim()} `.startsWith(said)) break;
    count += 1;
  }
  return count;
}

function rounded(value: number): number {
  return Number(value.toPrecision(5));
}
