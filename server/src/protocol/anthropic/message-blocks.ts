/**
 * From the deltas of an answer to content blocks, one open at a time: streams and whole messages are both made of these
 * steps. Source: Anthropic's API reference, "Streaming messages", content blocks.
 */
import { createHash } from "node:crypto";
import type { OutputDelta } from "../../chat/chat-contract.ts";

export type BlockStart =
  | { readonly type: "text" }
  | { readonly type: "thinking" }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string };

export type BlockStep =
  | { readonly step: "start"; readonly index: number; readonly block: BlockStart }
  | { readonly step: "append"; readonly index: number; readonly type: BlockStart["type"]; readonly text: string }
  | { readonly step: "sign"; readonly index: number; readonly signature: string }
  | { readonly step: "stop"; readonly index: number };

export interface ReasoningDisplay {
  /** Reasoning comes as blocks of its own; else it is left out. */
  readonly isShown: boolean;
  /** The blocks come without their text. */
  readonly isOmitted: boolean;
}

export class MessageBlocks {
  readonly #display: ReasoningDisplay;
  #index = -1;
  #open: BlockStart["type"] | undefined;
  /** White space before the first word of a text: no block begins for it alone. */
  #blank = "";
  #reasoning = "";
  #blockReasoning = "";

  constructor(display: ReasoningDisplay) {
    this.#display = display;
  }

  /** All reasoning so far, shown or not. */
  get reasoning(): string {
    return this.#reasoning;
  }

  read(deltas: readonly OutputDelta[]): readonly BlockStep[] {
    const steps: BlockStep[] = [];
    for (const delta of deltas) this.#read(delta, steps);
    return steps;
  }

  /** Closes the block that is open. */
  end(): readonly BlockStep[] {
    const steps: BlockStep[] = [];
    this.#close(steps);
    return steps;
  }

  #read(delta: OutputDelta, steps: BlockStep[]): void {
    switch (delta.type) {
      case "text":
        this.#text(delta.text, steps);
        break;
      case "reasoning":
        this.#reason(delta.text, steps);
        break;
      case "tool-call-start":
        this.#start({ type: "tool_use", id: delta.id, name: delta.name }, steps);
        break;
      case "tool-call-arguments":
        this.#append("tool_use", delta.text, steps);
        break;
      case "tool-call-end":
        this.#close(steps);
        break;
    }
  }

  #text(text: string, steps: BlockStep[]): void {
    if (this.#open === "text") {
      this.#append("text", text, steps);
      return;
    }
    this.#blank += text;
    if (this.#blank.trim() === "") return;
    const held = this.#blank;
    this.#start({ type: "text" }, steps);
    this.#append("text", held, steps);
  }

  #reason(text: string, steps: BlockStep[]): void {
    this.#reasoning += text;
    if (!this.#display.isShown) return;
    if (this.#open !== "thinking") this.#start({ type: "thinking" }, steps);
    this.#blockReasoning += text;
    if (!this.#display.isOmitted) this.#append("thinking", text, steps);
  }

  #start(block: BlockStart, steps: BlockStep[]): void {
    this.#close(steps);
    this.#blank = "";
    this.#index += 1;
    this.#open = block.type;
    steps.push({ step: "start", index: this.#index, block });
  }

  #append(type: BlockStart["type"], text: string, steps: BlockStep[]): void {
    if (text !== "") steps.push({ step: "append", index: this.#index, type, text });
  }

  #close(steps: BlockStep[]): void {
    if (this.#open === undefined) return;
    if (this.#open === "thinking") {
      steps.push({ step: "sign", index: this.#index, signature: digestOf(this.#blockReasoning) });
      this.#blockReasoning = "";
    }
    this.#open = undefined;
    steps.push({ step: "stop", index: this.#index });
  }
}

/** Clients send it back with the block and drop blocks without one. Nothing here checks it. */
function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
