/**
 * POST /v1/load_lora_adapter and /v1/unload_lora_adapter: adapters that come and go while the server runs. A load runs one
 * token through the adapter, so that a folder which cannot be loaded is refused here and not by a later request.
 * Source: vLLM's documentation, "LoRA Adapters", "Dynamically serving LoRA Adapters".
 */
import { resolve } from "node:path";
import type { ServedModel } from "../../core/model-server.ts";
import { parameterText } from "../../text-model/model-folders.ts";
import { PLAIN_REQUEST } from "../../text-model/text-request.ts";
import { ApiError, invalidRequest } from "../api/api-error.ts";
import { HttpCallFacts } from "../api/call-facts.ts";
import type { RouteCall } from "../api/route.ts";
import { boolean, object, optional, required, type Schema, string } from "../api/schema.ts";
import { expectModel, findModel, type OpenAiContext } from "./openai-context.ts";

const MAX_NAME = 256;
const MAX_PATH = 4096;
/** No colon: it stands between a model and its adapter. */
const NAME = /^[\w.@/-]+$/;

export interface LoadAdapterRequest {
  readonly lora_name: string;
  /** Below the model's `lora_dir`; relative paths begin there. */
  readonly lora_path: string;
  readonly load_inplace?: boolean | undefined;
  /** Needed where several models take adapters. */
  readonly base_model_name?: string | undefined;
}

export const LOAD_ADAPTER_REQUEST: Schema<LoadAdapterRequest> = object<LoadAdapterRequest>({
  lora_name: required(string(MAX_NAME)),
  lora_path: required(string(MAX_PATH)),
  load_inplace: optional(boolean()),
  base_model_name: optional(string(MAX_NAME)),
});

export interface UnloadAdapterRequest {
  readonly lora_name: string;
}

export const UNLOAD_ADAPTER_REQUEST: Schema<UnloadAdapterRequest> = object<UnloadAdapterRequest>({
  lora_name: required(string(MAX_NAME)),
});

export class AdapterManagement {
  readonly #context: OpenAiContext;

  constructor(context: OpenAiContext) {
    this.#context = context;
  }

  /** @throws ApiError @throws ServerError why the adapter cannot be loaded */
  async load(request: LoadAdapterRequest, route: RouteCall): Promise<string> {
    this.#expectAllowed();
    const { lora_name: name, lora_path: path, load_inplace: replaces = false } = request;
    if (name === "" || path === "") {
      throw invalidRequest(null, null, "Both 'lora_name' and 'lora_path' must be provided.");
    }
    const base = this.#base(request.base_model_name, route.access);
    route.access?.expect("model-repository", base.name);
    this.#expectFree(name, replaces);
    const folder = adapterFolder(base, path);
    await this.#try(base, folder, route);
    this.#context.models.adapters.set({ name, base: base.name, path: folder });
    return `Success: LoRA adapter '${name}' added successfully.`;
  }

  /** @throws ApiError */
  unload({ lora_name: name }: UnloadAdapterRequest, route: RouteCall): string {
    this.#expectAllowed();
    const { adapters } = this.#context.models;
    const known = adapters.find(name);
    if (known === undefined) throw notFound("lora_name", `The lora adapter '${name}' cannot be found.`);
    route.access?.expectModel(known.base, name);
    adapters.delete(name);
    return `Success: LoRA adapter '${name}' removed successfully.`;
  }

  /** As vLLM, which does not have the routes then. */
  #expectAllowed(): void {
    if (this.#context.allowsLoraUpdates === true) return;
    throw notFound(
      null,
      "LoRA adapters are not loaded or unloaded here: start the server with --allow-lora-updates=true",
    );
  }

  #expectFree(name: string, replaces: boolean): void {
    const { models } = this.#context;
    if (!NAME.test(name)) {
      const text = `Invalid 'lora_name': expected letters, digits and . @ / - _, got '${name}'.`;
      throw invalidRequest("lora_name", "invalid_value", text);
    }
    if (models.adapters.find(name) === undefined) {
      if (!hasModel(() => models.served(name))) return;
      const text = `The lora adapter name '${name}' conflicts with a served base model.`;
      throw invalidRequest("lora_name", "invalid_value", text);
    }
    if (replaces) return;
    const hint = "If you want to load the adapter in place, set 'load_inplace' to True.";
    throw invalidRequest("lora_name", null, `The lora adapter '${name}' has already been loaded. ${hint}`);
  }

  #base(name: string | undefined, access: RouteCall["access"]): ServedModel {
    const { models } = this.#context;
    if (name !== undefined) {
      expectModel(models, name, access);
      return expectAdapters(models.served(name));
    }
    const own = models.names().filter((each) => access?.mayUse(each) !== false);
    const able = own.flatMap((each) => {
      const served = models.served(each);
      return takesAdapters(served) && parameterText(served, "lora_dir") !== undefined ? [served] : [];
    });
    const [only, ...more] = able;
    if (only !== undefined && more.length === 0) return only;
    const names = able.map((each) => each.name).join(", ") || "none";
    const text = `Expected 'base_model_name': models that take adapters from a 'lora_dir' are: ${names}.`;
    throw invalidRequest("base_model_name", "missing_required_parameter", text);
  }

  /** One token, which no key pays for. @throws ServerError */
  async #try(base: ServedModel, path: string, { call, requestId }: RouteCall): Promise<void> {
    const model = await findModel(this.#context, base.name, undefined);
    const request = { ...PLAIN_REQUEST, prompt: { text: "a" }, maxTokens: 1, adapterPath: path };
    const generation = await model.generate(request, new HttpCallFacts(call, requestId));
    await generation.deliver(() => undefined);
  }
}

function takesAdapters({ inputs }: ServedModel): boolean {
  return inputs.has("lora_name") && inputs.has("lora_path");
}

/** @throws ApiError */
function expectAdapters(served: ServedModel): ServedModel {
  if (takesAdapters(served)) return served;
  const text = `Model '${served.name}' takes no adapters: expected inputs 'lora_name' and 'lora_path'.`;
  throw invalidRequest("base_model_name", "invalid_value", text);
}

/** The engine refuses folders elsewhere. @throws ApiError for a model without a folder of adapters */
function adapterFolder(served: ServedModel, path: string): string {
  const root = parameterText(served, "lora_dir");
  if (root !== undefined && served.folders !== undefined) return resolve(served.folders.model, root, path);
  const text = `Model '${served.name}' has no parameter 'lora_dir': adapters are loaded from below that folder only.`;
  throw invalidRequest("lora_path", "invalid_value", text);
}

function hasModel(find: () => ServedModel): boolean {
  try {
    find();
    return true;
  } catch {
    return false;
  }
}

function notFound(param: string | null, message: string): ApiError {
  return new ApiError({ status: 404, type: "invalid_request_error", code: "not_found", param, message });
}
