/**
 * The OpenAI API: its one table of routes, from which dispatch, validation and documentation come.
 * Sources: OpenAI's API reference; vLLM's OpenAI-compatible server.
 */
import type { KeyGate } from "../../access/key-gate.ts";
import type { ModelServer } from "../../core/model-server.ts";
import { describeThrown } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import type { TextModels } from "../../text-model/text-models.ts";
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import { type ApiRoute, actionRoute, getRoute, postRoute } from "../api/route.ts";
import { bytesReply, emptyReply, type HttpReply, jsonReply } from "../http/http-reply.ts";
import type { LoadReports } from "../load-report-text.ts";
import type { RestrictedGroup } from "../restriction.ts";
import { audioRoutes } from "./audio/create-transcription.ts";
import { type AskRoute, askRoutes } from "./batches/ask-route.ts";
import { BatchQueue } from "./batches/batch-queue.ts";
import { batchesRoutes } from "./batches/batches-api.ts";
import { createChatCompletion } from "./chat/create-chat.ts";
import { CHAT_REQUEST } from "./chat/request.ts";
import { createCompletion } from "./completion/create-completion.ts";
import { COMPLETION_REQUEST } from "./completion/request.ts";
import { createEmbeddings, EMBEDDING_REQUEST } from "./embeddings.ts";
import { FileStore } from "./files/file-store.ts";
import { filesRoutes } from "./files/files-api.ts";
import { ModelList } from "./list-models.ts";
import { AdapterManagement, LOAD_ADAPTER_REQUEST, UNLOAD_ADAPTER_REQUEST } from "./manage-adapters.ts";
import { ModelManagement } from "./manage-models.ts";
import type { OpenAiContext } from "./openai-context.ts";
import { OPENAI_FORM, type OpenAiForm } from "./openai-form.ts";
import { responsesRoutes } from "./responses/responses-api.ts";
import { CLASSIFY_REQUEST, classify, createScores, RERANK_REQUEST, rerank, SCORE_REQUEST } from "./score.ts";
import { DETOKENIZE_REQUEST, detokenize, TOKENIZE_REQUEST, tokenize } from "./tokenize.ts";

export interface OpenAiApiParts {
  readonly server: ModelServer;
  readonly models: TextModels;
  readonly restricted: readonly RestrictedGroup[];
  readonly allowsLoraUpdates?: boolean | undefined;
  readonly openAiRestricted?: JsonApiParts["openAiRestricted"];
  readonly maxInputBytes: number;
  readonly log: Logger;
  /** Absent: no load reports. */
  readonly load?: LoadReports | undefined;
  /** Absent: calls need no key. */
  readonly keys?: KeyGate | undefined;
  /** Folder of files and batches; absent: their routes are off. */
  readonly filesFolder?: string | undefined;
  /** Requests of all batches that run at once. */
  readonly batchConcurrency?: number | undefined;
  /** Default: OpenAI's. */
  readonly form?: OpenAiForm | undefined;
}

export function createOpenAiApi(parts: OpenAiApiParts): JsonApi {
  const form = parts.form ?? OPENAI_FORM;
  const storage = openStorage(parts, (question) => ask(question));
  const routes = openAiRoutes(parts, form, storage);
  const ask = askRoutes(routes, form, parts.keys);
  return new JsonApi({
    routes,
    prefix: "/v1/",
    restricted: parts.restricted,
    openAiRestricted: parts.openAiRestricted,
    maxBodyBytes: parts.maxInputBytes,
    log: parts.log,
    load: parts.load,
    keys: parts.keys,
    errorOf: form.errorOf,
    errorBody: form.errorBody,
  });
}

/** The server starts while the folder is read; a folder that cannot be used fails the calls that need it. */
function openStorage(parts: OpenAiApiParts, ask: AskRoute): OpenAiStorage {
  const { filesFolder, server, log, maxInputBytes } = parts;
  if (filesFolder === undefined) return NO_STORAGE;
  const opened = FileStore.open(filesFolder);
  const batches = opened.then((files) =>
    BatchQueue.open({
      files,
      ask,
      maxLineBytes: maxInputBytes,
      maxRequests: parts.batchConcurrency ?? DEFAULT_BATCH_CONCURRENCY,
      serverState: () => server.state,
      log,
    }),
  );
  batches.catch((error: unknown) => log.error("http", `--openai-files-dir=${filesFolder}: ${describeThrown(error)}`));
  return { files: opened, batches };
}

/** Both undefined where the server has no folder for files. */
export interface OpenAiStorage {
  readonly files: Promise<FileStore> | undefined;
  readonly batches: Promise<BatchQueue> | undefined;
}

const NO_STORAGE: OpenAiStorage = { files: undefined, batches: undefined };
const DEFAULT_BATCH_CONCURRENCY = 8;

export function openAiRoutes(
  context: OpenAiContext,
  form: OpenAiForm = OPENAI_FORM,
  storage: OpenAiStorage = NO_STORAGE,
): readonly ApiRoute[] {
  const list = new ModelList(context, form);
  const json = async (answer: Promise<unknown>) => jsonReply(await answer);
  return [
    ...managementRoutes(context, list),
    ...adapterRoutes(context),
    getRoute("/v1/models", "metadata", "List the models", ({ access }) => json(list.all(access))),
    getRoute("/v1/models/{model*}", "metadata", "Describe a model", ({ params }) =>
      json(list.one(params.get("model") ?? "")),
    ),
    postRoute("/v1/chat/completions", "inference", "Answer a chat", CHAT_REQUEST, (body, route) =>
      createChatCompletion(context, body, route),
    ),
    ...responsesRoutes(context),
    ...audioRoutes(context),
    ...filesRoutes(storage.files),
    ...batchesRoutes(storage.batches),
    postRoute("/v1/completions", "inference", "Continue a text", COMPLETION_REQUEST, (body, route) =>
      createCompletion(context, body, route),
    ),
    postRoute("/v1/embeddings", "inference", "Vectors of texts", EMBEDDING_REQUEST, (body, route) =>
      json(createEmbeddings(context, body, route)),
    ),
    ...["/score", "/v1/score"].map((path) =>
      postRoute(path, "inference", "Scores of pairs of texts", SCORE_REQUEST, (body, route) =>
        json(createScores(context, body, route)),
      ),
    ),
    ...["/rerank", "/v1/rerank", "/v2/rerank"].map((path) =>
      postRoute(path, "inference", "Documents in the order of a query", RERANK_REQUEST, (body, route) =>
        json(rerank(context, body, route)),
      ),
    ),
    ...["/classify", "/v1/classify"].map((path) =>
      postRoute(path, "inference", "Classes of texts", CLASSIFY_REQUEST, (body, route) =>
        json(classify(context, body, route)),
      ),
    ),
    postRoute("/tokenize", "inference", "Text or messages to token ids", TOKENIZE_REQUEST, (body, route) =>
      json(tokenize(context, body, route)),
    ),
    postRoute("/detokenize", "inference", "Token ids to text", DETOKENIZE_REQUEST, (body, route) =>
      json(detokenize(context, body, route)),
    ),
  ];
}

/** As vLLM's, which answers with a text. */
function adapterRoutes(context: OpenAiContext): readonly ApiRoute[] {
  const management = new AdapterManagement(context);
  const text = (words: string): HttpReply => bytesReply("text/plain; charset=utf-8", [Buffer.from(words)]);
  return [
    postRoute(
      "/v1/load_lora_adapter",
      "model-repository",
      "Load an adapter",
      LOAD_ADAPTER_REQUEST,
      async (body, route) => text(await management.load(body, route)),
    ),
    postRoute(
      "/v1/unload_lora_adapter",
      "model-repository",
      "Unload an adapter",
      UNLOAD_ADAPTER_REQUEST,
      async (body, route) => text(management.unload(body, route)),
    ),
  ];
}

/** Beside OpenAI's own routes: those of Triton's OpenAI front end, and vLLM's `/health`. */
function managementRoutes({ server }: OpenAiContext, list: ModelList): readonly ApiRoute[] {
  const management = new ModelManagement(server);
  const health = async (): Promise<HttpReply> => emptyReply(healthStatus(server), "text/plain");
  return [
    ...["/health", "/health/ready"].map((path) => getRoute(path, "health", "Whether the server is ready", health)),
    actionRoute("/v1/models/{model}/load", "model-repository", "Load a model", async ({ params }) => {
      const name = params.get("model") ?? "";
      await management.load(name);
      return jsonReply(await list.loaded(name));
    }),
    actionRoute("/v1/models/{model}/unload", "model-repository", "Unload a model", async ({ params }) => {
      const model = params.get("model") ?? "";
      await management.unload(model);
      return jsonReply({ status: "success", model });
    }),
  ];
}

function healthStatus(server: ModelServer): number {
  if (server.state === "exiting") return 503;
  return server.ready() ? 200 : 400;
}
