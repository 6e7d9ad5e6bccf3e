/**
 * The server as a part of another program: models are loaded as by `nereid serve` and called without a network, by the API that
 * models in TypeScript have for each other. Flags choose the listeners; by default there are none.
 */
import process from "node:process";
import type { ModelCaller } from "./backend/backend.ts";
import type { CallPlan, FromThread, PackedError, ToThread } from "./backend/typescript/messages.ts";
import type { ModelHandle, Models, Tensor, TensorValue } from "./backend/typescript/model-api.ts";
import { ModelCalls } from "./backend/typescript/model-calls.ts";
import { packError } from "./backend/typescript/model-error.ts";
import { CallingModels } from "./backend/typescript/worker/calling-models.ts";
import { escapesMessages, logSettings } from "./config/flags/log-settings.ts";
import { parseServerFlags } from "./config/flags/parse-server-flags.ts";
import type { ServerOptions } from "./config/flags/server-options.ts";
import type { ModelServer } from "./core/model-server.ts";
import { signatureOf } from "./core/model-signature.ts";
import { startServer } from "./main/start-server.ts";
import { ServerLog } from "./observe/log.ts";

export type { ModelHandle, Tensor, TensorValue };

export interface InProcessServer extends AsyncDisposable {
  /** `model("resnet").infer({ ... })`, `.stream({ ... })`: as `models.resnet` in the code of a model. */
  model(name: string): ModelHandle;
  /** By the server's rule of readiness. */
  readonly isReady: boolean;
  /** With control mode `explicit`. */
  load(model: string): Promise<void>;
  unload(model: string): Promise<void>;
  /** Accepted calls end, models unload. False when the time allowed ran out. */
  stop(): Promise<boolean>;
}

const SILENT_FRONT_ENDS: readonly string[] = ["--allow-http=false", "--allow-grpc=false", "--allow-metrics=false"];

/**
 * `flags` are those of `nereid serve`: `await openServer(["--model-repository=models"])`.
 * @throws Error when the flags are wrong or a model does not load
 */
export async function openServer(flags: readonly string[]): Promise<InProcessServer> {
  const parsed = parseServerFlags([...SILENT_FRONT_ENDS, ...flags], process.env);
  if (parsed.kind === "usage") throw new Error(parsed.text);
  const { options } = parsed;
  const running = await startServer(options, createLog(options));
  const { server } = running;
  const models = modelsOf(server);
  return {
    model: (name) => models[name] as ModelHandle,
    get isReady() {
      return server.ready();
    },
    load: (model) => server.load(model, {}),
    unload: (model) => server.unload(model, false),
    stop: () => running.stop(),
    [Symbol.asyncDispose]: async () => void (await running.stop()),
  };
}

/** The two ends of the way from a model's thread to its server, put together. */
function modelsOf(server: ModelServer): Models {
  const caller: ModelCaller = {
    infer: (request) => server.model(request.modelName, request.modelVersion).infer(request),
    signature: (name) => signatureOf(server.model(name, "").config),
  };
  const calls = new ModelCalls(caller);
  const answer = (message: ToThread): boolean => {
    if (message.type === "answer") calling.answered(message);
    return true;
  };
  const calling: CallingModels = new CallingModels({
    post(message: FromThread) {
      if (message.type === "call") void calls.run(message, answer);
      else if (message.type === "ask")
        calling.planned({ type: "plan", askId: message.askId, ...planOf(calls, message.modelName) });
      else if (message.type === "cancelCall") calls.cancel(message.callId);
      else if (message.type === "taken") calls.taken(message.callId, message.count);
    },
  });
  return calling.models({ key: 0, signal: undefined });
}

function planOf(calls: ModelCalls, modelName: string): { plan: CallPlan } | { error: PackedError } {
  try {
    return { plan: calls.plan(modelName) };
  } catch (error) {
    return { error: { ...packError(error), stack: "" } };
  }
}

function createLog({ log }: ServerOptions): ServerLog {
  return new ServerLog(logSettings(log), { escape: escapesMessages(process.env) });
}
