/** The APIs of clients of language models, over one set of text models. Part of the composition root. */
import type { KeyGate } from "../access/key-gate.ts";
import { createChatFormat } from "../chat/chat-format.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import type { ModelServer } from "../core/model-server.ts";
import type { LoadMeter } from "../observe/load-report.ts";
import type { Logger } from "../observe/log.ts";
import { createAnthropicApi } from "../protocol/anthropic/anthropic-api.ts";
import type { JsonApi } from "../protocol/api/json-api.ts";
import { createMcpApi } from "../protocol/mcp/mcp-api.ts";
import type { McpModule } from "../protocol/mcp/mcp-endpoint.ts";
import { createOllamaApi } from "../protocol/ollama/ollama-api.ts";
import { createOpenAiApi } from "../protocol/openai/openai-api.ts";
import { OPENAI_FORM } from "../protocol/openai/openai-form.ts";
import { TRITON_FORM } from "../protocol/openai/triton-form.ts";
import { createOpenApiApi, V2_GROUP } from "../protocol/openapi/openapi-api.ts";
import { TextModels } from "../text-model/text-models.ts";
import { keysFor, openAiRestrictedGroups, restrictedGroups } from "./listener-access.ts";

export interface ApiParts {
  readonly options: ServerOptions;
  readonly server: ModelServer;
  readonly log: Logger;
  /** Absent: calls need no key. */
  readonly keys?: KeyGate | undefined;
  /** Absent: models are no tools. */
  readonly mcp?: McpModule | undefined;
}

/**
 * The APIs of OpenAI, Anthropic and Ollama, and the Model Context Protocol, answer at the HTTP port, and at a port of their own
 * when one is given. Gives `closers` what ends streams that would stay open for ever.
 */
export function createApis(
  { options, server, log, keys, mcp }: ApiParts,
  load: LoadMeter,
  closers: (() => Promise<void>)[],
): JsonApi[] {
  const { maxInputBytes, accessKeys, cors } = options.http;
  const models = new TextModels(server, createChatFormat);
  const form = options.openai.frontend === "triton" ? TRITON_FORM : OPENAI_FORM;
  const shared = {
    server,
    models,
    restricted: restrictedGroups(accessKeys),
    openAiRestricted: openAiRestrictedGroups(options),
    log,
    load,
    keys: keysFor("openai", { options, keys }),
  };
  const tools = mcp && createMcpApi({ ...shared, maxBodyBytes: maxInputBytes, module: mcp, origins: cors.origins });
  if (tools !== undefined) closers.push(() => tools.close());
  const ofTools = tools === undefined ? [] : [tools.api];
  if (!options.openai.isEnabled) return ofTools;
  const openAi = createOpenAiApi({ ...shared, ...options.openai, maxInputBytes, form });
  const anthropic = createAnthropicApi({ ...shared, maxBodyBytes: maxInputBytes });
  const ollama = createOllamaApi({ ...shared, maxBodyBytes: maxInputBytes });
  const groups = [
    { name: "OpenAI", description: "Chats, texts, responses, vectors, scores", routes: openAi.routes },
    { name: "Anthropic", description: "Messages", routes: anthropic.routes },
    { name: "Ollama", description: "Chats and texts for its clients", routes: ollama.routes },
    ...ofTools.map(({ routes }) => ({ name: "MCP", description: "Models as tools", routes })),
    V2_GROUP,
  ];
  const { errorOf, errorBody } = form;
  const ofDocument = { ...shared, maxBodyBytes: maxInputBytes, version: server.version, groups };
  return [openAi, anthropic, ollama, ...ofTools, createOpenApiApi({ ...ofDocument, errorOf, errorBody })];
}
