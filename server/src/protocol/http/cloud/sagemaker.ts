/**
 * The endpoints of SageMaker (https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html):
 * invocations of one model, or of models that it loads and unloads by its own names.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject, JsonValue } from "@nereid/wire";
import type { Environment } from "../../../core/environment.ts";
import type { ModelServer } from "../../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";
import type { Logger } from "../../../observe/log.ts";
import type { HttpCall } from "../http-call.ts";
import { emptyReply, errorReply, type HttpReply, type HttpStreamReply, jsonReply } from "../http-reply.ts";
import { defaultModel } from "../infer/default-model.ts";
import { headerLengthOf, withBinaryType } from "../infer/platform-binary.ts";
import { readObject } from "../json/read-object.ts";
import type { RouteGuard } from "../route-guard.ts";
import type { ApiHandler } from "../transport/listener.ts";
import { RewrittenCall } from "./rewritten-call.ts";
import { type ModelRoots, modelAt, type NamedModel } from "./sagemaker-models.ts";

const TYPE = "application/vnd.sagemaker-triton.binary+json";
const TOO_MANY_REQUESTS = 429;
const MODEL_PATH = /^\/models\/([^/]+)(\/invoke)?$/;
/** How an answer says that the machine is too small for the model: SageMaker then unloads another and tries again. */
const OUT_OF_MEMORY =
  /out.?of.?memory|OOM|MemoryError|failed to allocate|cannot allocate|memory limit|ENOMEM|(Dst|Src) tensor is not initialized|CU\w+_STATUS_(NOT_INITIALIZED|ALLOC_FAILED)|No space left on device/i;
const TARGET_MODEL = "x-amzn-sagemaker-target-model";
/** The folder into which SageMaker puts the models of a multi-model endpoint. */
export const SAGEMAKER_MODELS = "/opt/ml/models";
const LOG_LOCATION = "sagemaker_server";
/** SageMaker waits 360 s for an unload. */
const UNLOAD_TIMEOUT_MS = 350_000;
const UNLOAD_POLL_MS = 100;

export type InferenceKind = "infer" | "generate" | "generate_stream";

export interface SagemakerOptions {
  /** "" = the only one. */
  readonly defaultModel: string;
  readonly kind: InferenceKind;
  readonly ping: "ready" | "live";
  readonly roots: ModelRoots;
  readonly maxInputBytes: number;
}

export interface SagemakerParts {
  /** The inference protocol. */
  readonly inner: ApiHandler;
  readonly guard: RouteGuard;
  readonly server: ModelServer;
  readonly log: Logger;
}

type Reply = HttpReply | HttpStreamReply;

export function sagemakerSettings(env: Environment): Pick<SagemakerOptions, "defaultModel" | "kind" | "ping"> {
  const kinds: readonly InferenceKind[] = ["infer", "generate", "generate_stream"];
  return {
    defaultModel: env.SAGEMAKER_TRITON_DEFAULT_MODEL_NAME ?? "",
    kind: kinds.find((kind) => kind === env.SAGEMAKER_TRITON_INFERENCE_TYPE) ?? "infer",
    ping: env.SAGEMAKER_TRITON_PING_MODE === "live" ? "live" : "ready",
  };
}

export class SagemakerApi implements ApiHandler {
  readonly #inner: ApiHandler;
  readonly #guard: RouteGuard;
  readonly #server: ModelServer;
  readonly #options: SagemakerOptions;
  readonly #log: Logger;
  /** By the name that SageMaker gave. */
  readonly #models = new Map<string, NamedModel>();

  constructor({ inner, guard, server, log }: SagemakerParts, options: SagemakerOptions) {
    this.#inner = inner;
    this.#guard = guard;
    this.#server = server;
    this.#log = log;
    this.#options = options;
  }

  async handle(call: HttpCall): Promise<Reply> {
    try {
      return await this.#route(call);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      const status = OUT_OF_MEMORY.test(error.message) ? 507 : error.code === "already_exists" ? 409 : 400;
      return errorReply(status, "application/json", error.message);
    }
  }

  async #route(call: HttpCall): Promise<Reply> {
    switch (`${call.method} ${call.path}`) {
      case "GET /ping":
        return await this.#inner.handle(rewritten(call, "GET", `/v2/health/${this.#options.ping}`));
      case "POST /invocations":
        return await this.#infer(call, this.#defaultModel());
      case "GET /models":
        return this.#guard.refusal("model-repository", "", call) ?? this.#list(call);
      case "POST /models":
        return this.#guard.refusal("model-repository", "", call) ?? (await this.#load(call));
      default:
        return await this.#ofModel(call);
    }
  }

  async #ofModel(call: HttpCall): Promise<Reply> {
    const [, encoded, invoke] = MODEL_PATH.exec(call.path) ?? [];
    const action = encoded === undefined ? "" : `${call.method}${invoke ?? ""}`;
    if (!["GET", "DELETE", "POST/invoke"].includes(action)) return errorReply(400, "application/json", "Bad Request");
    const name = encoded ?? "";
    const model = this.#models.get(name);
    // Asked before whether the model is there, which is none of a stranger's business.
    const refused = this.#guard.refusal(
      invoke === undefined ? "model-repository" : "inference",
      model?.name ?? "",
      call,
    );
    if (refused !== undefined) return refused;
    if (model === undefined) return errorReply(404, "application/json", `Model '${name}' is not loaded`);
    if (action === "GET") return jsonReply({ modelName: name, modelUrl: model.url });
    const target = call.header(TARGET_MODEL) ?? name;
    if (action === "POST/invoke") {
      this.#log.info(LOG_LOCATION, `Invoking SageMaker TargetModel: ${target}`);
      return await this.#infer(call, model.name);
    }
    this.#log.info(LOG_LOCATION, `Unloading SageMaker TargetModel: ${target}`);
    await this.#unload(model);
    this.#models.delete(name);
    return emptyReply(200, "application/json");
  }

  /** With the models that only this one called. SageMaker deletes the files when it has the answer. */
  async #unload({ name, repository }: NamedModel): Promise<void> {
    await this.#server.unload(name, true);
    const endMs = performance.now() + UNLOAD_TIMEOUT_MS;
    const isLeaving = (): boolean =>
      this.#server.index(false).some((row) => row.name === name && row.state === "UNLOADING");
    while (isLeaving() && performance.now() < endMs) await sleep(UNLOAD_POLL_MS);
    if (repository !== undefined) this.#server.unregisterRepository(repository.path);
  }

  #list({ access }: HttpCall): Reply {
    const own = [...this.#models].filter(([, { name }]) => access?.mayUse(name) !== false);
    return jsonReply({ models: own.map(([name, { url }]) => ({ modelName: name, modelUrl: url })) });
  }

  async #load(call: HttpCall): Promise<Reply> {
    const body = await readObject(call, this.#options.maxInputBytes, false);
    const [name, url] = [textOf(body, "model_name"), textOf(body, "url")];
    if (this.#models.has(name)) throw new ServerError("already_exists", `Model '${name}' is loaded already`);
    const target = call.header(TARGET_MODEL) ?? name;
    const model = modelAt(url, target, this.#options.roots);
    const refused = this.#guard.refusal("model-repository", model.name, call);
    if (refused !== undefined) return refused;
    this.#log.info(LOG_LOCATION, `Loading SageMaker TargetModel: ${target}`);
    const { repository } = model;
    if (repository !== undefined) {
      this.#server.registerRepository(repository.path, repository.folder, model.name);
    }
    this.#models.set(name, model); // before the load has ended, so that it is not begun twice
    try {
      await this.#server.load(model.name, {});
    } catch (error) {
      this.#models.delete(name);
      if (repository !== undefined) this.#server.unregisterRepository(repository.path);
      throw error;
    }
    return emptyReply(200, "application/json");
  }

  #defaultModel(): string {
    return defaultModel(this.#server, this.#options.defaultModel, "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME");
  }

  /** The clouds in front of it do not compress, and have one status for whatever the server refuses. */
  async #infer(call: HttpCall, model: string): Promise<Reply> {
    const refused = this.#guard.refusal("inference", model, call);
    if (refused !== undefined) return refused;
    const path = `/v2/models/${model}/${this.#options.kind}`;
    const reply = await this.#inner.handle(rewritten(call, "POST", path));
    if (reply.status < 400) return withBinaryType(reply, TYPE);
    if (reply.status === TOO_MANY_REQUESTS) return reply;
    const text = "body" in reply ? Buffer.concat(reply.body).toString() : "";
    return { ...reply, status: OUT_OF_MEMORY.test(text) ? 507 : 400 };
  }
}

function rewritten(call: HttpCall, method: "GET" | "POST", path: string): RewrittenCall {
  const headers = new Map([
    ["inference-header-content-length", headerLengthOf(call, TYPE)],
    ["content-encoding", undefined],
    ["accept-encoding", undefined],
  ]);
  return new RewrittenCall(call, { method, path, headers });
}

function textOf(body: JsonObject, name: string): string {
  const value: JsonValue | undefined = body.get(name);
  if (typeof value === "string") return value;
  throw invalidArgument(`expected a string in '${name}' of the request's JSON`);
}
