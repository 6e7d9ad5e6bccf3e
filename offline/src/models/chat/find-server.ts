/** Looks for a server that already serves a model under a name: one that the user names, those on record, the usual port. */
import { isObject } from "@nereid/server/core/json-object";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ModelStore } from "../store/model-store.ts";
import { runningServers } from "../store/running-servers.ts";
import { type ChatServer, headersOf } from "./chat-client.ts";

const USUAL_URL = "http://127.0.0.1:8000";
const TIMEOUT_MS = 2000;

/** Undefined: none serves it. */
export async function findServer(
  store: ModelStore,
  model: string,
  apiKey: string | undefined,
): Promise<ChatServer | undefined> {
  const urls = [...new Set([...runningServers(store).map(({ url }) => url), USUAL_URL])];
  for (const url of urls) {
    const names = await listModels({ url, apiKey }).catch((): readonly string[] => []);
    if (names.includes(model)) return { url, model, apiKey };
  }
  return undefined;
}

/** The model of a server for chats: the one of that name, or the only one. @throws ToolError */
export async function modelOf(server: Omit<ChatServer, "model">, wanted: string | undefined): Promise<ChatServer> {
  const names = await listModels(server);
  const [only] = names;
  const usual = ["ensemble", "tensorrt_llm"].find((name) => names.includes(name));
  const model = wanted ?? (names.length === 1 ? only : usual);
  if (model !== undefined && names.includes(model)) return { ...server, model };
  if (only === undefined) throw new ToolError(`The server at ${server.url} has no model of text`);
  const problem = wanted === undefined ? "has several models" : `has no model '${wanted}'`;
  throw new ToolError(`The server at ${server.url} ${problem}: ${names.join(", ")}`, {
    fix: "Choose one with --model",
  });
}

/** Names of the models that chat. @throws ToolError when nobody answers, or refuses */
export async function listModels(server: Omit<ChatServer, "model">): Promise<readonly string[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(`${server.url}/v1/models`, { headers: headersOf(server), signal }).catch(
    (cause: unknown) => {
      throw new ToolError(`No server answers at ${server.url}`, { cause, fix: "Start one: nereid serve NAME" });
    },
  );
  if (!response.ok) {
    throw new ToolError(`The server at ${server.url} answers ${response.status} for its models`, {
      fix: response.status === 401 ? "Give a key with --api-key" : "Check that it is a server with OpenAI's API",
    });
  }
  const list: unknown = await response.json();
  const entries: unknown[] = isObject(list) && Array.isArray(list.data) ? list.data : [];
  return entries.flatMap((entry) =>
    isObject(entry) && typeof entry.id === "string" && chats(entry) ? [entry.id] : [],
  );
}

/** Servers of others list no capabilities. */
function chats({ capabilities }: Readonly<Record<string, unknown>>): boolean {
  return !Array.isArray(capabilities) || capabilities.includes("chat");
}
