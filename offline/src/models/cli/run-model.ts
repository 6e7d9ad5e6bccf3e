/** `nereid run NAME`: finds the model of a name, and chats with it in the terminal, or answers once. */
import { join } from "node:path";
import process from "node:process";
import { text as readText } from "node:stream/consumers";
import { type CommandSyntax, type FlagTable, type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { type CommandContext, type OUTPUT_FLAGS, runCommand } from "@nereid/server/cli/run-command";
import { hostEntry } from "@nereid/server/engine/host/host-entry";
import { SpareHost } from "@nereid/server/engine/host/spare-host";
import { ToolError } from "@nereid/server/files/tool-error";
import { parseTemplateValues } from "../../template/template-values.ts";
import type { ChatMessage, ChatPart, ChatServer } from "../chat/chat-client.ts";
import { ChatSession, speedText } from "../chat/chat-session.ts";
import type { ChatSettings } from "../chat/chat-settings.ts";
import { findServer, modelOf } from "../chat/find-server.ts";
import { withImages } from "../chat/image-paths.ts";
import { prepareModel } from "../prepare/prepare-model.ts";
import { resolveModel } from "../resolve/resolve-model.ts";
import type { ResolveContext } from "../resolve/resolved-model.ts";
import { engineOf, LOAD_FLAGS, NAME_ARGUMENT, resolveContext } from "./model-flags.ts";

/** One person asks one question at a time. */
const BATCH_SIZE = 4;
const ENGINE = "tensorrt_llm";
const NUMBER = { type: "number" } as const;

const FLAGS = {
  system: { type: "string", value: "TEXT", summary: "the system message" },
  temperature: { ...NUMBER, min: 0, max: 2, summary: "0 always takes the likeliest token; default: the model's" },
  top_p: { ...NUMBER, min: 0, max: 1, summary: "probability that is kept" },
  top_k: { type: "integer", min: -1, summary: "candidates that are kept" },
  min_p: { ...NUMBER, min: 0, max: 1, summary: "share of the best token's probability" },
  repetition_penalty: { ...NUMBER, min: 0, summary: "1 is none" },
  presence_penalty: { ...NUMBER, min: -2, max: 2, summary: "0 is none" },
  frequency_penalty: { ...NUMBER, min: -2, max: 2, summary: "0 is none" },
  max_tokens: { type: "integer", min: 1, aliases: ["num_predict"], summary: "tokens of an answer at most" },
  seed: { type: "integer", min: 0, summary: "equal seeds give equal answers" },
  stop: { type: "string", many: "repeated", summary: "a text that ends an answer" },
  verbose: { type: "switch", short: "v", summary: "show the speed of answers" },
  server: { type: "string", value: "URL", summary: "a server that is to answer, instead of loading the model" },
  "api-key": { type: "string", value: "KEY", summary: "key for that server; others on this machine can see it" },
  model: { type: "string", value: "NAME", summary: "which model of a repository or server with several" },
  ...LOAD_FLAGS,
} as const satisfies FlagTable;

/** Names of the flags, for the choice between this command and that of run.py. */
export const CHAT_FLAG_NAMES: readonly string[] = [...Object.keys(FLAGS), "num_predict", "quiet", "json", "help"];

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "run",
  description:
    "Chats with a model in the terminal. With a prompt, or with piped input, it answers once and ends. With flags of TensorRT-LLM's run.py (nereid run --max_output_len ...) it takes that script's command line.",
  flags: FLAGS,
  positionals: [NAME_ARGUMENT, { name: "prompt", summary: "a question to answer once", optional: true, many: true }],
  examples: [
    "nereid run Qwen/Qwen2.5-0.5B-Instruct",
    "nereid run ./model.gguf 'Why is the sky blue?'",
    "nereid run org/model 'Summarize this:' < notes.txt",
  ],
};

type Values = FlagValues<typeof FLAGS>;
type Context = CommandContext<typeof FLAGS & typeof OUTPUT_FLAGS>;

export async function runModelCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async (context) => {
    const prompt = await onlyPrompt(context.positionals.slice(1));
    await using server = await openServer(context, prompt === undefined);
    const session = new ChatSession(server.chat, settingsOf(context.values, server.system));
    if (prompt === undefined) await chatHere(session, context);
    else await answerOnce(session, prompt, context);
  });
}

/** Undefined: a person is to ask. Words of the command line may name images; piped text is taken as it is. */
async function onlyPrompt(words: readonly string[]): Promise<ChatMessage["content"] | undefined> {
  const piped = process.stdin.isTTY ? "" : (await readText(process.stdin)).trim();
  const asked = await withImages(words.join(" "));
  if (typeof asked !== "string") return piped === "" ? asked : [...asked, { type: "text", text: piped }];
  const prompt = [asked, piped].filter((part) => part !== "").join("\n\n");
  if (prompt !== "") return prompt;
  if (!process.stdin.isTTY)
    throw new UsageError("there is no question: standard input is empty, and no prompt was given");
  return undefined;
}

interface OpenedServer extends AsyncDisposable {
  readonly chat: ChatServer;
  /** The model's own system message. */
  readonly system?: string | undefined;
}

/** A server that is there already, or one of our own. */
async function openServer({ values, positionals, reporter, signal }: Context, isChat: boolean): Promise<OpenedServer> {
  const [name = ""] = positionals;
  const context = resolveContext(values, { reporter, signal });
  // The engine's process and the server load their modules while the model is looked for. A server that has the model needs neither.
  using spareHost = values.server === undefined ? new SpareHost({ entry: hostEntry() }) : undefined;
  const found = await findRunning(name, values, context);
  if (found !== undefined) {
    if (isChat) reporter.info(`${found.model} at ${found.url}`);
    return { chat: found, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
  const resolved = await resolveModel(name, context);
  const loading = import("../chat/local-server.ts");
  const others = values.set === undefined ? new Map() : parseTemplateValues(values.set, () => false).values;
  const options = {
    maxBatchSize: BATCH_SIZE,
    weightType: values["weight-type"],
    engine: engineOf(values),
    skipsWarmUp: true,
    others,
  };
  const { repository, servedName, lines, system } = await prepareModel(resolved, options, context);
  if (isChat) for (const line of lines) reporter.info(line);
  if (isChat) reporter.info("Loading ...");
  const { startLocalServer } = await loading;
  const local = await startLocalServer(repository, servedName === undefined ? [] : [ENGINE], spareHost);
  try {
    signal.throwIfAborted();
    const chat = await modelOf({ url: local.url, apiKey: undefined }, values.model ?? servedName);
    return { chat, system, [Symbol.asyncDispose]: () => local[Symbol.asyncDispose]() };
  } catch (error) {
    await local[Symbol.asyncDispose]();
    throw error;
  }
}

async function findRunning(name: string, values: Values, { store }: ResolveContext): Promise<ChatServer | undefined> {
  const apiKey = values["api-key"];
  if (values.server !== undefined) {
    const server = { url: values.server.replace(/\/+$/, ""), apiKey };
    return modelOf(server, values.model ?? name);
  }
  const isPinned = [values["weight-type"], values.engine, values.set].some((value) => value !== undefined);
  return isPinned ? undefined : findServer(store, values.model ?? name, apiKey);
}

function settingsOf(values: Values, modelSystem: string | undefined): ChatSettings {
  const { temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty } = values;
  const { max_tokens, seed, stop, system = modelSystem, verbose } = values;
  const all = {
    ...{ temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, max_tokens, seed },
    stop: stop.length === 0 ? undefined : stop,
  };
  const given = Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return { system, sampling: Object.fromEntries(given), isVerbose: verbose };
}

async function chatHere(session: ChatSession, { reporter, values }: Context): Promise<void> {
  if (values.json) throw new UsageError("--json is for one question: give a prompt, or pipe it");
  reporter.info("Ask, or type /help. Control-D ends.");
  const { store } = resolveContext(values, { reporter, signal: new AbortController().signal });
  const historyFile = join(store.root, "chat-history");
  const { chatInTerminal } = await import("../chat/terminal-chat.ts");
  await chatInTerminal(session, { input: process.stdin, output: process.stdout, historyFile });
}

async function answerOnce(
  session: ChatSession,
  prompt: ChatMessage["content"],
  { reporter, signal, values }: Context,
): Promise<void> {
  const isText = reporter.mode !== "json";
  const reader = new AbortController();
  process.stdout.on("error", () => reader.abort(new Error("the reader has gone"))); // such as head, which has enough
  let hasBegun = false;
  const write = ({ kind, text }: ChatPart): void => {
    const shown = hasBegun ? text : text.trimStart();
    if (!isText || kind !== "text" || shown === "" || reader.signal.aborted) return;
    hasBegun = true;
    process.stdout.write(shown);
  };
  const either = AbortSignal.any([signal, reader.signal]);
  const { text, speed, usage, finishReason } = await session.ask(prompt, either, write);
  signal.throwIfAborted();
  if (reader.signal.aborted) return;
  if (hasBegun && !text.endsWith("\n")) process.stdout.write("\n");
  if (!isText) reporter.result("", { text, finish_reason: finishReason ?? null, usage: usage ?? null });
  if (values.verbose && speed !== undefined) reporter.info(speedText(speed));
  if (isText && !hasBegun)
    throw new ToolError("The model gave no text", { fix: "Try another prompt, or --temperature 1" });
}
