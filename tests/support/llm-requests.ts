/** Random requests to a language-model pipeline, the same for the same seed: which model, which endpoint, what is asked, what is done to it. */
import type { Random } from "./random.ts";

/** The client's action on a request that it has sent. */
export type Fate =
  /** Reads to the end. */
  | "read"
  /** Hangs up after a while, whatever has come. */
  | "leave"
  /** Hangs up once some of the answer has come. */
  | "leave midway"
  /** Asks for its end by its id once some of the answer has come, and reads to the end. */
  | "stop";

export type Way = "generate" | "generate_stream" | "infer" | "grpc stream";

export interface DrawnRequest {
  readonly id: string;
  readonly model: "ensemble" | "tensorrt_llm_bls" | "tensorrt_llm" | "preprocessing";
  readonly way: Way;
  readonly fate: Fate;
  /** When a client that leaves, leaves. */
  readonly leaveAfterMs: number;
  /** Parts of the answer after which it is left midway or stopped. */
  readonly numParts: number;
  /** The server must refuse it. */
  readonly isWrong: boolean;
  /** Inputs by name: strings are texts, `bigint` is UINT64, booleans are BOOL, a `{ float }` is FP32, other numbers INT32. */
  readonly inputs: Readonly<Record<string, InputValue>>;
}

export type InputValue =
  | string
  | readonly string[]
  | number
  | readonly number[]
  | bigint
  | boolean
  | { readonly float: number };

const OPENINGS = [
  "Once upon a time",
  "<s>[INST] write a story about boats [/INST]",
  "What is machine learning?",
  "The little bird sat on the highest branch of the old tree and sang to the morning sun, while down in the village",
];
const MIDDLES = ["", " there was a dog", " and the sea was calm", " éàü ☃ 漢字", " 1 2 3 4 5 6 7 8 9 10"];
const WORDS = ["the", " a", "boat", ".", "sun", "é", ""];
const MAX_LEAVE_MS = 200;

export function drawRequest(random: Random, index: number): DrawnRequest {
  const chance = (share: number): boolean => random.next() < share;
  if (chance(0.05)) return drawTokenizing(random, index);
  const model = random.pick(["ensemble", "ensemble", "tensorrt_llm_bls", "tensorrt_llm"] as const);
  const way = random.pick(["generate", "generate_stream", "grpc stream"] as const);
  const isWrong = chance(0.04);
  const isStreaming = way !== "generate" && !isWrong && chance(0.8);
  const fate = isWrong ? "read" : drawFate(random, isStreaming, way);
  const numTokens = fate === "leave midway" || fate === "stop" ? 200 : 1 + random.below(24);
  const asked = model === "tensorrt_llm" ? tokenPrompt(random, numTokens) : textPrompt(random, numTokens);
  const inputs = { ...asked, ...drawSampling(random, model, isStreaming) };
  const prefixed = (name: string): string => (model === "tensorrt_llm" ? name.replace("top_", "runtime_top_") : name);
  const named = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [prefixed(name), value]));
  return {
    id: `request-${index}`,
    model,
    way,
    fate,
    leaveAfterMs: random.below(MAX_LEAVE_MS),
    numParts: 1 + random.below(3),
    isWrong,
    inputs: {
      ...named,
      ...(isStreaming ? { [model === "tensorrt_llm" ? "streaming" : "stream"]: true } : {}),
      ...(isWrong ? { temperature: { float: -1 } } : {}),
    },
  };
}

function drawFate(random: Random, isStreaming: boolean, way: Way): Fate {
  const draw = random.next();
  if (draw < 0.1) return "leave";
  if (!isStreaming || draw >= 0.25) return "read";
  return draw < 0.2 || way !== "grpc stream" ? "leave midway" : "stop";
}

function drawTokenizing(random: Random, index: number): DrawnRequest {
  const inputs = { QUERY: random.pick(OPENINGS) + random.pick(MIDDLES), REQUEST_OUTPUT_LEN: 1 };
  const rest = { leaveAfterMs: 0, numParts: 1, isWrong: false };
  return { id: `request-${index}`, model: "preprocessing", way: "infer", fate: "read", ...rest, inputs };
}

function textPrompt(random: Random, numTokens: number): Record<string, InputValue> {
  const text = random.pick(OPENINGS) + random.pick(MIDDLES).repeat(1 + random.below(4));
  return { text_input: text, max_tokens: numTokens };
}

function tokenPrompt(random: Random, numTokens: number): Record<string, InputValue> {
  const length = 1 + random.below(120);
  // A common beginning, so that cache blocks are shared.
  const ids = Array.from({ length }, (_, i) => (i < 64 ? 100 + i : 10 + random.below(6000)));
  return { input_ids: ids, input_lengths: length, request_output_len: numTokens, end_id: 2 };
}

function drawSampling(random: Random, model: string, isStreaming: boolean): Record<string, InputValue> {
  const inputs: Record<string, InputValue> = {};
  const maybe = (share: number, name: string, draw: () => InputValue): void => {
    if (random.next() < share) inputs[name] = draw();
  };
  maybe(0.5, "temperature", () => ({ float: 0.2 + random.next() }));
  maybe(0.4, "top_k", () => random.below(50));
  maybe(0.4, "top_p", () => ({ float: random.next() }));
  maybe(0.5, random.pick(["seed", "random_seed"]), () => BigInt(random.below(1000)));
  maybe(0.2, "repetition_penalty", () => ({ float: 1 + random.next() / 2 }));
  maybe(0.2, "presence_penalty", () => ({ float: random.next() }));
  maybe(0.2, "frequency_penalty", () => ({ float: random.next() }));
  maybe(0.2, random.pick(["min_tokens", "min_length"]), () => random.below(8));
  maybe(0.2, "return_log_probs", () => true);
  maybe(0.2, "return_perf_metrics", () => true);
  if (!isStreaming) maybe(0.15, "beam_width", () => 1 + random.below(3));
  if (model === "tensorrt_llm") return inputs;
  maybe(0.2, "stop_words", () => [random.pick(WORDS), random.pick(WORDS)]);
  maybe(0.2, "bad_words", () => [random.pick(WORDS)]);
  return inputs;
}
