/** A message that is sent at once. Source: Anthropic's API reference, "Messages", the response. */
import type { OutputDelta } from "../../chat/chat-contract.ts";
import { isObject } from "../api/schema.ts";
import { type BlockStart, type BlockStep, MessageBlocks, type ReasoningDisplay } from "./message-blocks.ts";

interface OpenBlock {
  readonly start: BlockStart;
  text: string;
  signature: string;
}

export class WholeMessage {
  readonly #steps: MessageBlocks;
  readonly #blocks: OpenBlock[] = [];

  constructor(display: ReasoningDisplay) {
    this.#steps = new MessageBlocks(display);
  }

  get reasoning(): string {
    return this.#steps.reasoning;
  }

  add(deltas: readonly OutputDelta[]): void {
    for (const step of this.#steps.read(deltas)) this.#add(step);
  }

  content(): readonly unknown[] {
    for (const step of this.#steps.end()) this.#add(step);
    return this.#blocks.map(contentOf);
  }

  #add(step: BlockStep): void {
    if (step.step === "start") this.#blocks.push({ start: step.block, text: "", signature: "" });
    const last = this.#blocks.at(-1);
    if (last === undefined) return;
    if (step.step === "append") last.text += step.text;
    if (step.step === "sign") last.signature = step.signature;
  }
}

function contentOf({ start, text, signature }: OpenBlock): unknown {
  switch (start.type) {
    case "text":
      return { type: "text", text };
    case "thinking":
      return { type: "thinking", thinking: text, signature };
    case "tool_use":
      return { ...start, input: inputOf(text) };
  }
}

/** Arguments that `max_tokens` cut off are no JSON: their call is shown, without them. */
function inputOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
