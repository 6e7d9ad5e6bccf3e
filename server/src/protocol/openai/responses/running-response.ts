/**
 * One response while its model generates: chunks in, events out, and the response object at any time. Foreground, stream
 * and background read their answers with it alike. Source: OpenAI's API reference, "Streaming events".
 */
import type { OutputParser } from "../../../chat/chat-contract.ts";
import type { FinishReason, TextChunk } from "../../../text-model/text-request.ts";
import type { JsonObject } from "../../api/schema.ts";
import { ChatChoice } from "../chat/chat-choice.ts";
import { nowSeconds } from "../openai-context.ts";
import { UsageSum } from "../usage.ts";
import type { Compaction } from "./compaction.ts";
import { OutputBuilder } from "./items/output-builder.ts";
import type { Emit } from "./items/output-item.ts";
import type { ReasoningDisplay } from "./items/reasoning-item.ts";
import { responseError } from "./response-error.ts";
import { type ResponseFacts, type ResponseFault, type ResponseStatus, responseObject } from "./response-object.ts";
import type { ToolOrigin } from "./tools.ts";

export interface RunningOptions {
  readonly facts: ResponseFacts;
  readonly parser: OutputParser;
  readonly origins: ReadonlyMap<string, ToolOrigin>;
  readonly reasoning: ReasoningDisplay;
  readonly countTokens: (text: string) => number;
  /** Comes first among the items. */
  readonly compaction?: Compaction | undefined;
}

export class RunningResponse {
  readonly #options: RunningOptions;
  readonly #emit: Emit;
  readonly #choice: ChatChoice;
  readonly #builder: OutputBuilder;
  readonly #usage = new UsageSum(1);
  #finish: FinishReason | undefined;
  #status: ResponseStatus;
  #error: ResponseFault | null = null;
  #completedAt: number | null = null;
  #hasCompacted = false;

  constructor(options: RunningOptions, emit: Emit) {
    const { parser, origins, reasoning, facts } = options;
    this.#options = options;
    this.#emit = emit;
    this.#choice = new ChatChoice(parser);
    this.#builder = new OutputBuilder({ origins, reasoning, emit });
    this.#status = facts.body.background === true ? "queued" : "in_progress";
  }

  get status(): ResponseStatus {
    return this.#status;
  }

  /** The events that open every stream. */
  begin(): void {
    this.#tell("response.created");
    if (this.#status === "queued") this.#tell("response.queued");
    this.#status = "in_progress";
    this.#tell("response.in_progress");
  }

  read(chunk: TextChunk): void {
    this.#compact();
    const { deltas } = this.#choice.read(chunk);
    this.#builder.add(deltas, chunk.scores);
    this.#usage.set(0, chunk.usage);
    this.#finish = chunk.finish ?? this.#finish;
  }

  end(): void {
    this.#compact();
    const status = this.#finish === "length" ? "incomplete" : "completed";
    this.#builder.end(status);
    this.#settle(status);
  }

  fail(thrown: unknown): void {
    const { code, message, type } = responseError(thrown);
    this.#error = { code: code ?? (type === "server_error" ? "server_error" : "invalid_prompt"), message };
    this.#builder.end("incomplete");
    this.#settle("failed");
  }

  /** Without an event of its own: OpenAI has none. */
  cancel(): void {
    this.#builder.end("incomplete");
    this.#status = "cancelled";
  }

  object(): JsonObject {
    const isOver = this.#status !== "queued" && this.#status !== "in_progress";
    return responseObject(this.#options.facts, {
      status: this.#status,
      completedAt: this.#completedAt,
      error: this.#error,
      output: this.#builder.items,
      usage: isOver ? this.#usage.value(this.#options.countTokens(this.#builder.reasoning)) : undefined,
    });
  }

  /** Its tokens count with those of the answer. */
  #compact(): void {
    const { compaction } = this.#options;
    if (compaction === undefined || this.#hasCompacted) return;
    this.#hasCompacted = true;
    this.#builder.addCompaction(compaction.item);
    if (compaction.usage !== undefined) this.#usage.set(1, compaction.usage);
  }

  #settle(status: "completed" | "incomplete" | "failed"): void {
    this.#status = status;
    if (status === "completed") this.#completedAt = nowSeconds();
    this.#tell(`response.${status}`);
  }

  #tell(type: string): void {
    this.#emit(type, { response: this.object() });
  }
}
