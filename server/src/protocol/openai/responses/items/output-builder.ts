/**
 * The items of an answer from the deltas of its text: text, reasoning and calls in the order in which the model wrote
 * them. Source: OpenAI's API reference, "The response object", `output`.
 */
import type { OutputDelta } from "../../../../chat/chat-contract.ts";
import type { TokenScore } from "../../../../text-model/text-request.ts";
import type { JsonObject } from "../../../api/schema.ts";
import { chatLogProbs } from "../../log-probs.ts";
import { newItemId } from "../input-items.ts";
import type { ToolOrigin } from "../tools.ts";
import { CustomCallItem, FunctionCallItem } from "./call-item.ts";
import { MessageItem } from "./message-item.ts";
import { type Emit, ItemEvents, type ItemStatus, type OutputItem, type TokenLogProbs } from "./output-item.ts";
import { type ReasoningDisplay, ReasoningItem } from "./reasoning-item.ts";

export interface OutputOptions {
  readonly origins: ReadonlyMap<string, ToolOrigin>;
  readonly reasoning: ReasoningDisplay;
  readonly emit: Emit;
}

export class OutputBuilder {
  readonly #options: OutputOptions;
  readonly #done: JsonObject[] = [];
  #open: OutputItem | undefined;
  /** Scores of tokens whose text is held back. */
  #scores: TokenScore[] = [];
  /** For the count of its tokens. */
  reasoning = "";

  constructor(options: OutputOptions) {
    this.#options = options;
  }

  /** Items that are whole. */
  get items(): readonly JsonObject[] {
    return this.#done;
  }

  add(deltas: readonly OutputDelta[], scores: readonly TokenScore[]): void {
    for (const score of scores) this.#scores.push(score);
    for (const delta of deltas) this.#add(delta);
  }

  /** The first item, whole from the start. */
  addCompaction(item: JsonObject): void {
    const events = new ItemEvents(String(item.id), this.#done.length, this.#options.emit);
    events.added(item);
    events.emit("response.compaction.compacting", {});
    events.done(item);
    this.#done.push(item);
  }

  /** Behind the last delta. An answer that is complete has an item, be it empty. */
  end(status: ItemStatus): void {
    if (status === "completed" && this.#open === undefined && this.#done.length === 0) this.#message();
    this.#close(status);
  }

  #add(delta: OutputDelta): void {
    switch (delta.type) {
      case "text":
        this.#message().push(delta.text, this.#takeLogProbs());
        break;
      case "reasoning":
        this.reasoning += delta.text;
        this.#scores = [];
        this.#reasoning().push(delta.text, []);
        break;
      case "tool-call-start":
        this.#close("completed");
        this.#open = this.#call(delta.id, delta.name);
        break;
      case "tool-call-arguments":
        if (this.#open?.kind === "call") this.#open.push(delta.text, []);
        break;
      case "tool-call-end":
        this.#scores = [];
        break;
    }
  }

  #message(): OutputItem {
    if (this.#open?.kind === "message") return this.#open;
    this.#close("completed");
    const item = new MessageItem(this.#events("msg"));
    this.#open = item;
    return item;
  }

  #reasoning(): OutputItem {
    if (this.#open?.kind === "reasoning") return this.#open;
    this.#close("completed");
    const item = new ReasoningItem(this.#events("rs"), this.#options.reasoning);
    this.#open = item;
    return item;
  }

  #call(callId: string, name: string): OutputItem {
    const origin = this.#options.origins.get(name) ?? { isCustom: false, name, namespace: undefined };
    const Item = origin.isCustom ? CustomCallItem : FunctionCallItem;
    return new Item(this.#events(origin.isCustom ? "ctc" : "fc"), callId, origin);
  }

  #events(prefix: string): ItemEvents {
    return new ItemEvents(newItemId(prefix), this.#done.length, this.#options.emit);
  }

  #close(status: ItemStatus): void {
    if (this.#open === undefined) return;
    this.#done.push(this.#open.close(status));
    this.#open = undefined;
  }

  #takeLogProbs(): TokenLogProbs {
    if (this.#scores.length === 0) return [];
    const { content } = chatLogProbs(this.#scores);
    this.#scores = [];
    return content;
  }
}
