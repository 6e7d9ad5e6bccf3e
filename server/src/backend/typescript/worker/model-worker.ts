/** The program of a model's thread: loads the model's file and does what the server's messages say. */
import { register } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { BEGUN_BATCH, type FromThread, type ThreadData, type ToThread } from "../messages.ts";
import type * as Api from "../model-api.ts";
import { packError } from "../model-error.ts";
import { CallingModels } from "./calling-models.ts";
import { Outbox } from "./outbox.ts";
import { BatchRunner, type LoadedModel } from "./run-batches.ts";
import { SharedMetrics } from "./shared-metrics.ts";
import type { ThreadLink } from "./thread-link.ts";

const data: ThreadData = workerData;
const port = parentPort;
if (port === null) throw new Error("this program runs as a thread of the server");

const link: ThreadLink = { post: (message: FromThread, transfer = []) => port.postMessage(message, [...transfer]) };
const calling = new CallingModels(link);
const context = createContext();
const heartbeat = new Int32Array(data.heartbeat);
let runner: BatchRunner | undefined;
let model: LoadedModel = {};

beat();
port.on("message", (message: ToThread) => receive(message));
await start();

async function start(): Promise<void> {
  try {
    register(
      new URL(`./type-stripping-hooks${import.meta.url.slice(import.meta.url.lastIndexOf("."))}`, import.meta.url),
      {
        data: { ownFolder: new URL("../../../", import.meta.url).href },
      },
    );
    process.setSourceMapsEnabled(true);
    model = modelOf(await import(pathToFileURL(data.file).href));
    await model.initialize?.(context);
    const { decoupled, maxBatchSize, sequenceIdleMs, outputs } = data;
    const outbox = new Outbox(link);
    runner = new BatchRunner({ model, context, calling, outbox, decoupled, maxBatchSize, sequenceIdleMs, outputs });
    link.post({ type: "initialized" });
  } catch (thrown) {
    link.post({ type: "initialized", error: packError(thrown) });
  }
}

function receive(message: ToThread): void {
  if (message.type === "execute") {
    Atomics.store(heartbeat, BEGUN_BATCH, message.batchId | 0);
    void runner?.run(message);
  } else if (message.type === "answer") calling.answered(message);
  else if (message.type === "plan") calling.planned(message);
  else if (message.type === "cancel") runner?.cancel(message.key);
  else if (message.type === "credit") runner?.credit(message.key, message.count);
  else void finalize();
}

async function finalize(): Promise<void> {
  try {
    await model.finalize?.(context);
    link.post({ type: "finalized" });
  } catch (thrown) {
    link.post({ type: "finalized", error: packError(thrown) });
  }
  // Timers and servers that the model left open must not keep its thread.
  setImmediate(() => process.exit(0));
}

/** The default export, or the module itself. @throws TypeError when neither answers requests */
function modelOf(loaded: Readonly<Record<string, unknown>>): LoadedModel {
  const found = [loaded.default, loaded].find(isModel);
  if (found !== undefined) return found;
  const names = Object.keys(loaded).join(", ") || "nothing";
  throw new TypeError(
    `${data.file} must export a function 'execute' or 'executeBatch', by name or in its default export; it exports ${names}`,
  );
}

function isModel(value: unknown): value is LoadedModel {
  if (typeof value !== "object" || value === null) return false;
  const { execute, executeBatch }: { execute?: unknown; executeBatch?: unknown } = value;
  return typeof execute === "function" || typeof executeBatch === "function";
}

function createContext(): Api.Context {
  const { name, version, instanceName, config, parameters, modelFolder, versionFolder } = data;
  const log = (level: "info" | "warn" | "error" | "verbose") => (message: string) =>
    link.post({ type: "log", level, message: String(message) });
  return {
    ...{ name, version, instanceName, config, parameters, modelFolder, versionFolder },
    models: calling.models({ key: 0, signal: undefined }),
    metrics: new SharedMetrics(link),
    log: { info: log("info"), warn: log("warn"), error: log("error"), verbose: log("verbose") },
    error: (code, message) => Object.assign(new Error(message), { code }),
  };
}

/** Moves the count that the server watches for as long as the event loop turns. */
function beat(): void {
  setInterval(() => Atomics.add(heartbeat, 0, 1), data.heartbeatMs).unref();
}
