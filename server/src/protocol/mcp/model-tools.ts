/**
 * The models that are ready, as tools. Sequence models are none: a tool has no memory of the call before.
 * Source: Model Context Protocol, revision 2026-07-28, "Tools".
 */
import { createHash } from "node:crypto";
import { AccessRefusal } from "../../access/access-refusal.ts";
import type { ModelServer, ServedModel } from "../../core/model-server.ts";
import { ServerError } from "../../core/server-error.ts";
import { parameterText } from "../../text-model/model-folders.ts";
import type { TextModel } from "../../text-model/text-model.ts";
import type { TextModels } from "../../text-model/text-models.ts";
import { ApiError } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import { openAiError } from "../openai/openai-error.ts";
import type { McpHost, McpTool, McpToolCall, McpToolPage, McpToolResult } from "./mcp-endpoint.ts";
import { runTensorTool, tensorToolSchemas } from "./tensor-tool.ts";
import { runTextTool, textToolSchemas } from "./text-tool.ts";
import { startTool } from "./tool-call.ts";

/** Tools of one page of the list. */
const PAGE_SIZE = 256;
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const MAX_KEPT = 55;
const HASH_DIGITS = 8;

export interface ModelToolsParts {
  readonly server: ModelServer;
  readonly models: TextModels;
}

export class ModelTools {
  readonly #server: ModelServer;
  readonly #models: TextModels;

  constructor({ server, models }: ModelToolsParts) {
    this.#server = server;
    this.#models = models;
  }

  /** The tools of one caller: a key with a list of models sees no others. */
  hostOf(route: RouteCall): McpHost {
    return {
      list: (cursor) => this.#list(cursor, route),
      call: (call) => this.#call(call, route),
    };
  }

  async #list(cursor: string | undefined, route: RouteCall): Promise<McpToolPage | undefined> {
    if (cursor !== undefined && !/^\d{1,9}$/.test(cursor)) return undefined;
    const from = Number(cursor ?? 0);
    const names = this.#names(route);
    const page = names.slice(from, from + PAGE_SIZE);
    const tools = await Promise.all(page.map((name) => this.#tryTool(name)));
    const end = from + PAGE_SIZE;
    return {
      tools: tools.flatMap((tool) => tool ?? []),
      ...(end < names.length ? { nextCursor: String(end) } : {}),
    };
  }

  #names({ access }: RouteCall): readonly string[] {
    return this.#models.names().filter((name) => access?.mayUse(name) !== false);
  }

  /** Undefined: unloaded meanwhile, a sequence model, or its files are broken. */
  async #tryTool(name: string): Promise<McpTool | undefined> {
    try {
      const served = this.#server.model(name, "");
      if (!isTool(served)) return undefined;
      const text = await this.#textModel(served);
      const schemas = text === undefined ? tensorToolSchemas(served) : textToolSchemas(name);
      const description = parameterText(served, "tool_description") ?? schemas.description;
      return { name: toolName(name), title: name, ...schemas, description };
    } catch {
      return undefined;
    }
  }

  /** Undefined: the model is one of tensors. */
  async #textModel({ name }: ServedModel): Promise<TextModel | undefined> {
    try {
      const model = await this.#models.find(name);
      return model.signature.kind === "tokens" && model.tokenizer === undefined ? undefined : model;
    } catch {
      return undefined;
    }
  }

  async #call(call: McpToolCall, route: RouteCall): Promise<McpToolResult | undefined> {
    const served = this.#find(call.name, route);
    if (served === undefined) return undefined;
    try {
      const run = startTool(this.#server, served, call, route);
      const text = await this.#textModel(served);
      return text === undefined ? await runTensorTool(served, run) : await runTextTool(text, run);
    } catch (thrown) {
      return failure(thrown);
    }
  }

  /** A model that the caller may not see is unknown to it. */
  #find(tool: string, route: RouteCall): ServedModel | undefined {
    const name = this.#names(route).find((each) => toolName(each) === tool);
    if (name === undefined) return undefined;
    try {
      const served = this.#server.model(name, "");
      return isTool(served) ? served : undefined;
    } catch {
      return undefined;
    }
  }
}

function isTool({ config }: ServedModel): boolean {
  return config.sequence_batching === undefined;
}

/** A name that a language model may not call is cut and gets a hash, so that two names stay two. */
export function toolName(model: string): string {
  if (TOOL_NAME.test(model)) return model;
  const hash = createHash("sha256").update(model).digest("hex").slice(0, HASH_DIGITS);
  return `${model.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, MAX_KEPT)}_${hash}`;
}

/** Texts of other errors must not leak. */
function failure(thrown: unknown): McpToolResult {
  if (thrown instanceof AccessRefusal) return { text: thrown.message, isError: true };
  const isKnown = thrown instanceof ApiError || thrown instanceof ServerError;
  const { message } = isKnown ? openAiError(thrown, "prompt") : ServerError.from(thrown);
  return { text: message, isError: true };
}
