/** Looks for a server that already serves a model under a name: one that the user names, those on record, the usual port. */
import { isObject } from "@nereid/server/core/json-object";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ModelStore } from "../store/model-store.ts";
import { runningServers } from "../store/running-servers.ts";
import { type ChatServer, headersOf } from "./chat-client.ts";
import { isOk, requestUrl, textOf } from "./http-request.ts";

const USUAL_URL = "http://127.0.0.1:8000";
/** For a server that may be there, and for one that is: it may read a vocabulary first, on a busy machine. */
const PROBE_MS = 2000;
const ANSWER_MS = 120_000;

/** Undefined: none serves it. */
export async function findServer(
  store: ModelStore,
  model: string,
  apiKey: string | undefined,
): Promise<ChatServer | undefined> {
  const urls = [...new Set([...runningServers(store).map(({ url }) => url), USUAL_URL])];
  for (const url of urls) {
    const names = await listModels({ url, apiKey }, PROBE_MS).catch((): readonly string[] => []);
    if (names.includes(model)) return { url, model, apiKey };
  }
  return undefined;
}

/** The model of a server for chats: the one of that name, or the only one. @throws ToolError */
export async function modelOf(
  server: Omit<ChatServer, "model">,
  wanted: string | undefined,
  timeoutMs: number = ANSWER_MS,
): Promise<ChatServer> {
  const names = await listModels(server, timeoutMs);
  const [only] = names;
  const usual = ["ensemble", "vlm", "tensorrt_llm"].find((name) => names.includes(name));
  const model = wanted ?? (names.length === 1 ? only : usual);
  if (model !== undefined && names.includes(model)) return { ...server, model };
  if (only === undefined) throw new ToolError(`The server at ${server.url} has no model of text`);
  const problem = wanted === undefined ? "has several models" : `has no model '${wanted}'`;
  throw new ToolError(`The server at ${server.url} ${problem}: ${names.join(", ")}`, {
    fix: "Choose one with --model",
  });
}

export interface ServedChatModel {
  readonly chat: ChatServer;
  readonly contextLength: number | undefined;
}

/**
 * A model for other programs to ask: of the server at `url`, otherwise of the last one started that has the model, or
 * of the one at the usual port. @throws ToolError when there is none
 */
export async function findModel(
  store: ModelStore,
  {
    url,
    model,
    apiKey,
  }: { readonly url: string | undefined; readonly model: string | undefined; readonly apiKey: string | undefined },
): Promise<ServedChatModel> {
  const started = runningServers(store)
    .toReversed()
    .map((server) => server.url);
  const urls = url === undefined ? [...new Set([...started, USUAL_URL])] : [url];
  let refusal: unknown;
  for (const each of urls) {
    try {
      const chat = await modelOf({ url: each, apiKey }, model, url === undefined ? PROBE_MS : ANSWER_MS);
      const entry = (await modelEntries(chat, ANSWER_MS)).find(({ id }) => id === chat.model);
      return { chat, contextLength: entry?.contextLength };
    } catch (error) {
      refusal ??= error;
    }
  }
  throw refusal;
}

/** Names of the models that chat. @throws ToolError when nobody answers, or refuses */
export async function listModels(
  server: Omit<ChatServer, "model">,
  timeoutMs: number = ANSWER_MS,
): Promise<readonly string[]> {
  return (await modelEntries(server, timeoutMs)).map(({ id }) => id);
}

interface ModelEntry {
  readonly id: string;
  readonly contextLength: number | undefined;
}

async function modelEntries(server: Omit<ChatServer, "model">, timeoutMs: number): Promise<readonly ModelEntry[]> {
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await requestUrl(`${server.url}/v1/models`, { headers: headersOf(server), signal }).catch(
    (cause: unknown) => {
      throw new ToolError(`No server answers at ${server.url}`, { cause, fix: "Start one: nereid serve NAME" });
    },
  );
  if (!isOk(response)) {
    throw new ToolError(`The server at ${server.url} answers ${response.status} for its models`, {
      fix: response.status === 401 ? "Give a key with --api-key" : "Check that it is a server with OpenAI's API",
    });
  }
  const list: unknown = JSON.parse(await textOf(response));
  const entries: unknown[] = isObject(list) && Array.isArray(list.data) ? list.data : [];
  return entries.flatMap((entry) => {
    if (!isObject(entry) || typeof entry.id !== "string" || !chats(entry)) return [];
    const { id, max_model_len: context } = entry;
    return [{ id, contextLength: typeof context === "number" ? context : undefined }];
  });
}

/** Servers of others list no capabilities. */
function chats({ capabilities }: Readonly<Record<string, unknown>>): boolean {
  return !Array.isArray(capabilities) || capabilities.includes("chat");
}
