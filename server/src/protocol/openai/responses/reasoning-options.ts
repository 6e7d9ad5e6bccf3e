/** `reasoning` of a request, and its meaning for chat templates. Source: OpenAI's API reference, "Reasoning". */
import { anything, type JsonObject, object, oneOf, optional, type Schema } from "../../api/schema.ts";
import type { ChatRequest } from "../chat/request.ts";

export type Effort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

export interface ReasoningOptions {
  readonly effort?: Effort | undefined;
  readonly summary?: "auto" | "concise" | "detailed" | "none" | undefined;
  /** The older name of `summary`; any value asks for one. */
  readonly generate_summary?: unknown;
}

export const REASONING: Schema<ReasoningOptions> = object<ReasoningOptions>({
  effort: optional(oneOf("none", "minimal", "low", "medium", "high", "xhigh", "max")),
  summary: optional(oneOf("auto", "concise", "detailed", "none")),
  generate_summary: optional(anything()),
});

/** Templates know three levels. */
const LEVELS: Readonly<Record<Effort, string>> = {
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high",
};

/** Names by which templates switch reasoning off: `enable_thinking` (Qwen, GLM), `thinking` (DeepSeek, Granite). */
const OFF: JsonObject = { enable_thinking: false, thinking: false };

export function reasoningFields(
  reasoning: ReasoningOptions | undefined,
  variables: JsonObject | undefined,
): Pick<ChatRequest, "reasoning_effort" | "chat_template_kwargs"> {
  const effort = reasoning?.effort;
  const off = effort === "none" ? OFF : undefined;
  return {
    reasoning_effort: effort === undefined ? undefined : LEVELS[effort],
    chat_template_kwargs: off === undefined ? variables : { ...off, ...variables },
  };
}

export function wantsSummary({ summary, generate_summary: older }: ReasoningOptions): boolean {
  const asked = summary ?? older;
  return asked !== undefined && asked !== "none";
}
