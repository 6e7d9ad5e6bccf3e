/**
 * GET /api/tags and /api/ps, POST /api/show: the models of this server in Ollama's terms. Sizes and digests of files are
 * unknown here. Source: Ollama's API reference, "List Local Models", "Show Model Information".
 */
import { createHash } from "node:crypto";
import { gapPrompt } from "../../text-model/fill-in-the-middle.ts";
import type { ModelAssets } from "../../text-model/model-assets.ts";
import type { Sampling } from "../../text-model/text-request.ts";
import { missingParameter } from "../api/api-error.ts";
import type { RouteCall } from "../api/route.ts";
import { type Capability, ModelList, type ModelObject } from "../openai/list-models.ts";
import { expectModel, type OpenAiContext } from "../openai/openai-context.ts";
import { OPENAI_FORM } from "../openai/openai-form.ts";
import { type OllamaShowRequest, servedName } from "./ollama-request.ts";

/** Ollama's names for what a model can do. */
const CAPABILITIES: readonly (readonly [own: Capability, name: string])[] = [
  ["chat", "completion"],
  ["vision", "vision"],
  ["tools", "tools"],
  ["reasoning", "thinking"],
  ["embeddings", "embedding"],
];

const PARAMETERS: readonly (readonly [option: string, key: keyof Sampling])[] = [
  ["temperature", "temperature"],
  ["top_p", "topP"],
  ["top_k", "topK"],
  ["min_p", "minP"],
  ["repeat_penalty", "repetitionPenalty"],
  ["presence_penalty", "presencePenalty"],
  ["frequency_penalty", "frequencyPenalty"],
];
/** Columns of a name, as Ollama aligns them. */
const PARAMETER_WIDTH = 31;

/** No model is unloaded for want of use. */
const NEVER = "9999-12-31T23:59:59Z";
const MS_PER_S = 1000;

export class OllamaModels {
  readonly #context: OpenAiContext;
  readonly #list: ModelList;

  constructor(context: OpenAiContext) {
    this.#context = context;
    this.#list = new ModelList(context, OPENAI_FORM);
  }

  async tags({ access }: RouteCall): Promise<unknown> {
    const models = await this.#models(access);
    return { models: models.map((model) => this.#entry(model)) };
  }

  /** All models of a server are loaded. */
  async running({ access }: RouteCall): Promise<unknown> {
    const models = await this.#models(access);
    return {
      models: models.map((model) => ({
        ...this.#entry(model),
        expires_at: NEVER,
        size_vram: 0,
        context_length: model.max_model_len ?? 0,
      })),
    };
  }

  /** @throws ApiError model_not_found @throws AccessRefusal forbidden */
  async show({ model: given, name: older }: OllamaShowRequest, { access }: RouteCall): Promise<unknown> {
    const name = given ?? older;
    if (name === undefined || name === "") throw missingParameter("model");
    expectModel(this.#context.models, servedName(name), access);
    const model = await this.#list.one(servedName(name));
    const family = this.#family(model);
    const assets = await this.#context.models.assets(this.#context.models.served(model.root));
    return {
      modelfile: "",
      parameters: parametersOf(assets.defaults),
      template: "",
      license: "",
      details: detailsOf(family),
      model_info: {
        "general.architecture": family,
        "general.basename": model.root,
        ...(model.max_model_len === undefined ? {} : { [`${family}.context_length`]: model.max_model_len }),
      },
      capabilities: [...capabilitiesOf(model), ...(fillsGaps(assets) ? ["insert"] : [])],
      modified_at: modifiedAt(model),
    };
  }

  /** Models that Ollama's routes can use. */
  async #models(access: RouteCall["access"]): Promise<readonly ModelObject[]> {
    const { data } = await this.#list.all(access);
    return data.filter((model) => capabilitiesOf(model).length > 0);
  }

  #entry(model: ModelObject): Readonly<Record<string, unknown>> {
    const { id } = model;
    return {
      name: id,
      model: id,
      modified_at: modifiedAt(model),
      size: 0,
      digest: createHash("sha256").update(id).digest("hex"),
      details: { ...detailsOf(this.#family(model)), parent_model: model.parent ?? "" },
    };
  }

  #family({ root }: ModelObject): string {
    const { config } = this.#context.models.served(root);
    return config.backend === "" ? "ensemble" : config.backend;
  }
}

function fillsGaps({ tokenizer }: Pick<ModelAssets, "tokenizer">): boolean {
  return tokenizer !== undefined && gapPrompt(tokenizer, "", "") !== undefined;
}

/** Lines as those of a Modelfile: the values for options that a request leaves out. */
function parametersOf(defaults: Sampling): string {
  return PARAMETERS.flatMap(([name, key]) => {
    const value = defaults[key];
    return value === undefined ? [] : [`${name.padEnd(PARAMETER_WIDTH)}${value}`];
  }).join("\n");
}

function capabilitiesOf({ capabilities }: ModelObject): readonly string[] {
  return CAPABILITIES.flatMap(([own, name]) => (capabilities.includes(own) ? [name] : []));
}

function detailsOf(family: string): Readonly<Record<string, unknown>> {
  return {
    parent_model: "",
    format: "",
    family,
    families: [family],
    parameter_size: "",
    quantization_level: "",
  };
}

function modifiedAt({ created }: ModelObject): string {
  return new Date(created * MS_PER_S).toISOString();
}
