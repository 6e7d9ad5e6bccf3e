/**
 * GET /v1/models and /v1/models/{model}: the models that these routes can serve, with capabilities and context length.
 * Sources: OpenAI's and Anthropic's API references, "Models"; vLLM's `max_model_len`.
 */
import type { ServedModel } from "../../core/model-server.ts";
import { embeddingSignature } from "../../text-model/embedding-signature.ts";
import { adapterNames } from "../../text-model/text-models.ts";
import { textSignature } from "../../text-model/text-signature.ts";
import { unlistedModel } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import type { OpenAiContext } from "./openai-context.ts";
import { modelError } from "./openai-error.ts";
import type { OpenAiForm } from "./openai-form.ts";

export interface ModelObject {
  readonly id: string;
  readonly object: "model";
  readonly created: number;
  readonly owned_by: string;
  /** Members of Anthropic's clients, whose list has the same path. */
  readonly type: "model";
  readonly display_name: string;
  readonly created_at: string;
  /** The base model of an adapter. */
  readonly parent: string | null;
  readonly root: string;
  readonly capabilities: readonly Capability[];
  readonly max_model_len?: number;
}

export type Capability =
  | "chat"
  | "completions"
  | "tools"
  | "reasoning"
  | "vision"
  | "logprobs"
  | "structured_outputs"
  | "tokenize"
  | "embeddings"
  | "score"
  | "classify";

/** Both APIs' lists, in one page. */
export interface ModelPage {
  readonly object: "list";
  readonly data: readonly ModelObject[];
  readonly has_more: false;
  readonly first_id: string | null;
  readonly last_id: string | null;
}

const MS_PER_S = 1000;

export class ModelList {
  readonly #context: OpenAiContext;
  readonly #form: Pick<OpenAiForm, "owner" | "listsAllModels">;
  /** No file tells when a model was made: the time from which this server knows it. */
  readonly #created = Math.floor(Date.now() / 1000);

  constructor(context: OpenAiContext, form: Pick<OpenAiForm, "owner" | "listsAllModels">) {
    this.#context = context;
    this.#form = form;
  }

  /** `access`: a key with a list of models sees no others. */
  async all(access: RouteCall["access"]): Promise<ModelPage> {
    const listed = this.#context.models.listed().filter(({ name }) => access?.mayUse(name) !== false);
    const lists = await Promise.all(listed.map(({ id, name }) => this.#tryObjects(id, name)));
    const data = lists.flat();
    const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    return { object: "list", data, has_more: false, ...ends };
  }

  /** @throws ApiError model_not_found */
  async one(name: string): Promise<ModelObject> {
    const served = this.#find(name);
    const isItself = this.#context.models.isNameOf(served, name);
    const [base] = await this.#objects(isItself ? name : served.name, served);
    if (base === undefined) throw unlistedModel(name);
    return isItself ? base : adapterOf(base, name);
  }

  /** A model that was loaded by name, whether or not these routes serve it. */
  async loaded(name: string): Promise<ModelObject> {
    const served = this.#find(name);
    const [base] = await this.#objects(name, served);
    return base ?? this.#object(name, served, []);
  }

  #find(name: string): ServedModel {
    try {
      return this.#context.models.served(name);
    } catch (error) {
      throw modelError(error, name, unlistedModel);
    }
  }

  async #tryObjects(id: string, name: string): Promise<readonly ModelObject[]> {
    try {
      return await this.#objects(id, this.#context.server.model(name, ""));
    } catch {
      return []; // unloaded meanwhile, or its files are broken: a request says why
    }
  }

  /** The model and its adapters; none for a model that no route serves. */
  async #objects(id: string, served: ServedModel): Promise<readonly ModelObject[]> {
    const capabilities = await this.#capabilities(served);
    if (capabilities.length === 0) return this.#form.listsAllModels ? [this.#object(id, served, [])] : [];
    const { contextLength } = await this.#context.models.assets(served);
    const base = this.#object(id, served, capabilities, contextLength);
    const own = adapterNames(served).map((adapter) => adapterOf(base, `${id}:${adapter}`));
    const loaded = this.#context.models.adapters.of(served.name).flatMap(({ name }) => [`${id}:${name}`, name]);
    return [base, ...own, ...loaded.map((name) => adapterOf(base, name))];
  }

  #object(id: string, served: ServedModel, capabilities: readonly Capability[], contextLength?: number): ModelObject {
    return {
      id,
      object: "model",
      created: this.#created,
      owned_by: this.#form.owner,
      type: "model",
      display_name: id,
      created_at: new Date(this.#created * MS_PER_S).toISOString(),
      parent: null,
      root: served.name,
      capabilities,
      ...(contextLength === undefined ? {} : { max_model_len: contextLength }),
    };
  }

  async #capabilities(served: ServedModel): Promise<readonly Capability[]> {
    const embedding = embeddingSignature(served);
    if (embedding !== undefined)
      return [embedding.kind, ...(embedding.kind === "embeddings" ? ["score" as const] : [])];
    const signature = textSignature(served);
    if ("reason" in signature) return [];
    const { tokenizer, chat } = await this.#context.models.assets(served);
    if (signature.kind === "tokens" && tokenizer === undefined) return [];
    const has = (isThere: boolean, capability: Capability): readonly Capability[] => (isThere ? [capability] : []);
    return [
      "chat",
      "completions",
      ...has(chat.template !== undefined && chat.tools.name !== "none", "tools"),
      ...has(chat.reasoning !== undefined, "reasoning"),
      ...has(signature.inputs.has("image"), "vision"),
      ...has(signature.kind === "tokens" && signature.inputs.has("logProbs"), "logprobs"),
      ...has(signature.inputs.has("guide"), "structured_outputs"),
      ...has(tokenizer !== undefined, "tokenize"),
    ];
  }
}

function adapterOf(base: ModelObject, id: string): ModelObject {
  return { ...base, id, display_name: id, parent: base.id };
}
