/** Splits an answer into reasoning and the rest. Sources: the chat templates of the models; vLLM's names of the formats. */
import type { OutputDelta, OutputParser, ReasoningFormat } from "./chat-contract.ts";
import { TextCursor } from "./tools/text-cursor.ts";

export interface ReasoningRow extends ReasoningFormat {
  readonly open: string;
  readonly close: string;
}

const row = (name: string, open: string, close: string): ReasoningRow => ({
  name,
  open,
  close,
  specialTokens: [open, close],
});

export const REASONING_ROWS: readonly ReasoningRow[] = [
  row("think", "<think>", "</think>"),
  row("mistral", "[THINK]", "[/THINK]"),
  row("seed_oss", "<seed:think>", "</seed:think>"),
  row("kimi", "◁think▷", "◁/think▷"),
  row("cohere", "<|START_THINKING|>", "<|END_THINKING|>"),
  row("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
  row("gemma4", "<|channel>thought\n", "<channel|>"),
];

/** Names that other servers use for the same marks. */
const ALIASES: Readonly<Record<string, string>> = {
  deepseek_r1: "think",
  deepseek_v3: "think",
  qwen3: "think",
  glm45: "think",
  minimax: "think",
  granite: "think",
  holo2: "think",
};

export function reasoningRow(name: string): ReasoningRow | undefined {
  const own = ALIASES[name] ?? name;
  return REASONING_ROWS.find((one) => one.name === own);
}

/** Whether the prompt leaves the model inside its reasoning. */
export function isReasoningOpen(prompt: string, { open, close }: Pick<ReasoningRow, "open" | "close">): boolean {
  return prompt.lastIndexOf(open.trim()) > prompt.lastIndexOf(close.trim()) && prompt.trimEnd().endsWith(open.trim());
}

type State = "start" | "inside" | "behind" | "rest";

export class ReasoningParser implements OutputParser {
  readonly #row: ReasoningRow;
  readonly #inner: OutputParser;
  readonly #cursor = new TextCursor();
  #state: State;
  #hasReasoning = false;
  #heldSpace = "";

  /** @param inner parses what is no reasoning */
  constructor(reasoning: ReasoningRow, isOpen: boolean, inner: OutputParser) {
    this.#row = reasoning;
    this.#state = isOpen ? "inside" : "start";
    this.#inner = inner;
  }

  push(text: string): readonly OutputDelta[] {
    if (this.#state === "rest") return this.#inner.push(text);
    this.#cursor.append(text);
    return this.#advance();
  }

  end(): readonly OutputDelta[] {
    this.#cursor.end();
    return [...this.#advance(), ...this.#inner.end()];
  }

  #advance(): readonly OutputDelta[] {
    const deltas: OutputDelta[] = [];
    while (this.#next(deltas)) {
      // One state a turn.
    }
    return deltas;
  }

  /** False: more text is needed, or the rest has gone to the inner parser. */
  #next(deltas: OutputDelta[]): boolean {
    switch (this.#state) {
      case "start":
        return this.#readStart();
      case "inside":
        return this.#readInside(deltas);
      case "behind":
        if (this.#cursor.skipSpace() === "more") return false;
        this.#state = "rest";
        return true;
      default:
        deltas.push(...this.#inner.push(this.#heldSpace + this.#cursor.takeAll()));
        this.#heldSpace = "";
        return false;
    }
  }

  #readStart(): boolean {
    const space = /^\s*/.exec(this.#cursor.rest)?.[0] ?? "";
    this.#heldSpace += this.#cursor.take(space.length);
    const match = this.#cursor.skip(this.#row.open);
    if (match === "more") return false;
    if (match === "yes") this.#heldSpace = "";
    this.#state = match === "yes" ? "inside" : "rest";
    return true;
  }

  #readInside(deltas: OutputDelta[]): boolean {
    const whole = this.#cursor.takeUntil(this.#row.close);
    if (whole !== undefined) {
      this.#emit(whole, deltas);
      this.#heldSpace = "";
      this.#state = "behind";
      return true;
    }
    this.#emit(this.#cursor.take(this.#cursor.numSafe([this.#row.close])), deltas);
    return false;
  }

  /** Without white space at both ends. */
  #emit(text: string, deltas: OutputDelta[]): void {
    const all = this.#heldSpace + text;
    const kept = this.#hasReasoning ? all.trimEnd() : all.trim();
    this.#heldSpace = this.#hasReasoning || kept !== "" ? all.slice(all.trimEnd().length) : "";
    if (kept === "") return;
    this.#hasReasoning = true;
    deltas.push({ type: "reasoning", text: kept });
  }
}
