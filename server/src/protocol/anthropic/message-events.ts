/** A message as Server-Sent Events. Source: Anthropic's API reference, "Streaming messages". */
import type { OutputParser } from "../../chat/chat-contract.ts";
import type { TextUsage } from "../../text-model/text-request.ts";
import type { StreamWriter } from "../api/text-stream.ts";
import { ChatChoice } from "../openai/chat/chat-choice.ts";
import type { IndexedChunk } from "../openai/open-generations.ts";
import { anthropicError, anthropicErrorBody } from "./anthropic-error.ts";
import { type BlockStart, type BlockStep, MessageBlocks, type ReasoningDisplay } from "./message-blocks.ts";
import { endOf, type MessageEnd, usageOf } from "./message-end.ts";

export interface MessageEventOptions {
  readonly id: string;
  readonly model: string;
  readonly maxTokens: number;
  readonly parser: OutputParser;
  readonly display: ReasoningDisplay;
  readonly numTokens: (text: string) => number;
}

const DELTAS: Readonly<Record<BlockStart["type"], readonly [type: string, member: string]>> = {
  text: ["text_delta", "text"],
  thinking: ["thinking_delta", "thinking"],
  tool_use: ["input_json_delta", "partial_json"],
};

export class MessageEvents implements StreamWriter {
  readonly #options: MessageEventOptions;
  readonly #choice: ChatChoice;
  readonly #blocks: MessageBlocks;
  #hasBegun = false;

  constructor(options: MessageEventOptions) {
    this.#options = options;
    this.#choice = new ChatChoice(options.parser);
    this.#blocks = new MessageBlocks(options.display);
  }

  chunk({ chunk }: IndexedChunk): string {
    const { deltas, finish } = this.#choice.read(chunk);
    let events = this.#begin(chunk.usage);
    for (const step of this.#blocks.read(deltas)) events += eventOfStep(step);
    if (finish === undefined) return events;
    for (const step of this.#blocks.end()) events += eventOfStep(step);
    return events + this.#finish(endOf(finish, chunk, this.#options.maxTokens), chunk.usage);
  }

  end(): string {
    return "";
  }

  fail(thrown: unknown): string {
    return event("error", anthropicErrorBody(anthropicError(thrown)));
  }

  #begin(usage: TextUsage): string {
    if (this.#hasBegun) return "";
    this.#hasBegun = true;
    return event("message_start", {
      type: "message_start",
      message: messageOf(this.#options, [], undefined, usage, 0),
    });
  }

  #finish(end: MessageEnd, usage: TextUsage): string {
    const thinkingTokens = this.#options.numTokens(this.#blocks.reasoning);
    const delta = { type: "message_delta", delta: end, usage: usageOf(usage, thinkingTokens) };
    return event("message_delta", delta) + event("message_stop", { type: "message_stop" });
  }
}

/** The message object. `end` undefined: it goes on. */
export function messageOf(
  { id, model }: Pick<MessageEventOptions, "id" | "model">,
  content: readonly unknown[],
  end: MessageEnd | undefined,
  usage: TextUsage,
  thinkingTokens: number,
): unknown {
  return {
    id,
    type: "message",
    role: "assistant",
    model,
    content,
    ...(end ?? { stop_reason: null, stop_sequence: null }),
    usage: { ...Object(usageOf(usage, thinkingTokens)), service_tier: "standard" },
  };
}

function eventOfStep(step: BlockStep): string {
  const { index } = step;
  switch (step.step) {
    case "start":
      return event("content_block_start", {
        type: "content_block_start",
        index,
        content_block: emptyBlock(step.block),
      });
    case "append": {
      const [type, member] = DELTAS[step.type];
      return event("content_block_delta", { type: "content_block_delta", index, delta: { type, [member]: step.text } });
    }
    case "sign": {
      const delta = { type: "signature_delta", signature: step.signature };
      return event("content_block_delta", { type: "content_block_delta", index, delta });
    }
    case "stop":
      return event("content_block_stop", { type: "content_block_stop", index });
  }
}

function emptyBlock(block: BlockStart): unknown {
  switch (block.type) {
    case "text":
      return { type: "text", text: "" };
    case "thinking":
      return { type: "thinking", thinking: "", signature: "" };
    case "tool_use":
      return { ...block, input: {} };
  }
}

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
