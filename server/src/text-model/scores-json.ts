/**
 * Log-probabilities as Triton's vllm_backend sends them: a JSON list with an object for each token, whose keys are ids.
 * The first key is the token that was chosen. Source: vllm_backend, `src/utils/request.py`. Pure.
 */
import { isObject } from "../core/json-object.ts";
import type { TokenLogProb, TokenScore } from "./text-request.ts";

/** `count`: the likeliest of each token, of those that are listed. Empty for what is no such list. */
export function readScoresJson(text: string, count: number): readonly TokenScore[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(list)) return [];
  const chosen = firstKeys(text);
  return list.flatMap((entry: unknown, index) => (isObject(entry) ? scoreOf(entry, chosen[index], count) : []));
}

function scoreOf(
  entry: Readonly<Record<string, unknown>>,
  chosen: string | undefined,
  count: number,
): readonly TokenScore[] {
  const own = chosen === undefined ? undefined : tokenOf(chosen, entry[chosen]);
  if (own === undefined) return [];
  const listed = Object.entries(entry).flatMap(([id, value]) => tokenOf(id, value) ?? []);
  return [{ ...own, top: listed.sort((a, b) => b.logProb - a.logProb).slice(0, count) }];
}

function tokenOf(id: string, value: unknown): TokenLogProb | undefined {
  if (!isObject(value) || typeof value.logprob !== "number") return undefined;
  const text = typeof value.decoded_token === "string" ? value.decoded_token : "";
  return { id: Number(id), text, bytes: Buffer.from(text), logProb: value.logprob };
}

/** First key of each object of a list, as written: parsed objects sort keys that are numbers. */
function firstKeys(json: string): readonly string[] {
  const keys: string[] = [];
  let depth = 0;
  let isFirst = false;
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === "[" || token === "{") {
      depth += 1;
      isFirst = depth === 2 && token === "{";
    } else if (token === "]" || token === "}") depth -= 1;
    else if (isFirst) {
      keys.push(token.slice(1, -1));
      isFirst = false;
    }
  }
  return keys;
}
