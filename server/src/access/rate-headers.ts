/** Headers that tell a client its limits. Source: OpenAI's API reference, "Rate limits in headers"; RFC 9110 10.2.3 for Retry-After. */
import type { RateState } from "./key-account.ts";

const MS_PER_S = 1000;
const S_PER_MINUTE = 60;
const S_PER_HOUR = 3600;

type Headers = readonly (readonly [name: string, value: string])[];

export function rateHeaders(rates: {
  readonly requests: RateState | undefined;
  readonly tokens: RateState | undefined;
}): Headers {
  return [...headersOf("requests", rates.requests), ...headersOf("tokens", rates.tokens)];
}

/** Seconds, rounded up: an earlier attempt would be refused again. */
export function retryAfter(ms: number): string {
  return String(Math.max(Math.ceil(ms / MS_PER_S), 1));
}

function headersOf(unit: string, state: RateState | undefined): Headers {
  if (state === undefined) return [];
  return [
    [`x-ratelimit-limit-${unit}`, String(state.limit)],
    [`x-ratelimit-remaining-${unit}`, String(state.remaining)],
    [`x-ratelimit-reset-${unit}`, durationText(state.resetMs)],
  ];
}

/** As Go prints durations: "0s", "120ms", "1s", "6m0s". */
export function durationText(ms: number): string {
  if (ms === 0) return "0s";
  if (ms < MS_PER_S) return `${ms}ms`;
  const seconds = ms / MS_PER_S;
  const hours = Math.floor(seconds / S_PER_HOUR);
  const minutes = Math.floor((seconds % S_PER_HOUR) / S_PER_MINUTE);
  const rest = `${Number((seconds % S_PER_MINUTE).toFixed(3))}s`;
  if (hours > 0) return `${hours}h${minutes}m${rest}`;
  return minutes > 0 ? `${minutes}m${rest}` : rest;
}
