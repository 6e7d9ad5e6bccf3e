/**
 * The room of text models: finds the model of a name, served names and `base:adapter` included, and keeps what was read
 * from its folders as long as that load of the model serves.
 */
import type { CreateChatFormat } from "../chat/chat-contract.ts";
import type { ModelServer, ServedModel } from "../core/model-server.ts";
import { invalidArgument, ServerError } from "../core/server-error.ts";
import { EmbeddingModel } from "./embedding-model.ts";
import { embeddingSignature } from "./embedding-signature.ts";
import { type ModelAssets, readAssets } from "./model-assets.ts";
import { candidateFolders, parameterText } from "./model-folders.ts";
import { RuntimeAdapters } from "./runtime-adapters.ts";
import { readSpeechFacts } from "./speech/read-facts.ts";
import { type SpeechFacts, SpeechModel, speechRefusal } from "./speech/speech-model.ts";
import { type AdapterOfName, TextModel } from "./text-model.ts";
import { textSignature } from "./text-signature.ts";

interface Known {
  readonly served: ServedModel;
  readonly assets: Promise<ModelAssets>;
}

export class TextModels {
  readonly #server: Pick<ModelServer, "model" | "index">;
  readonly #createChat: CreateChatFormat;
  /** Loaded while the server runs. */
  readonly adapters: RuntimeAdapters = new RuntimeAdapters();
  readonly #known = new Map<string, Known>();
  readonly #speech = new WeakMap<ServedModel, SpeechFacts>();
  readonly #signatures = new WeakMap<ServedModel, ReturnType<typeof textSignature>>();

  constructor(server: Pick<ModelServer, "model" | "index">, createChat: CreateChatFormat) {
    this.#server = server;
    this.#createChat = createChat;
  }

  /** @throws ServerError not_found for an unknown name, invalid_argument for a model that is none of text */
  async find(name: string): Promise<TextModel> {
    const { served, adapter } = this.#served(name);
    const signature = this.#signature(served);
    if ("reason" in signature) {
      throw invalidArgument(`The model '${name}' does not generate text: ${signature.reason}`);
    }
    return new TextModel(served, signature, await this.assets(served), name, adapter);
  }

  /** @throws ServerError not_found for an unknown name, invalid_argument for a model that gives no numbers for texts */
  async findEmbedding(name: string): Promise<EmbeddingModel> {
    const { served } = this.#served(name);
    const signature = embeddingSignature(served);
    if (signature !== undefined) return new EmbeddingModel(served, signature, await this.assets(served));
    const expected = "an input of TYPE_STRING, and an output of floating-point numbers";
    throw invalidArgument(`The model '${name}' embeds no texts: expected ${expected}`);
  }

  /** @throws ServerError not_found for an unknown name, invalid_argument for a model that reads no sound */
  async findSpeech(name: string): Promise<SpeechModel> {
    const { served } = this.#served(name);
    const refusal = speechRefusal(served);
    if (refusal !== undefined) throw invalidArgument(`The model '${name}' reads no sound: ${refusal}`);
    return new SpeechModel(name, served, await this.#speechFacts(served));
  }

  async #speechFacts(served: ServedModel): Promise<SpeechFacts> {
    const known = this.#speech.get(served);
    if (known !== undefined) return known;
    const { tokenizer } = await this.assets(served);
    const facts = await readSpeechFacts(served, candidateFolders(served, this.#server).weights, tokenizer);
    this.#speech.set(served, facts);
    return facts;
  }

  /** The model of a name without its adapter. @throws ServerError not_found */
  served(name: string): ServedModel {
    return this.#served(name).served;
  }

  /** Names of all models that are ready. */
  names(): readonly string[] {
    return [...new Set(this.#server.index(true).map(({ name }) => name))];
  }

  /**
   * Names for lists of models, each with the model's own. Once a model has served names, lists show these alone, as
   * vLLM's --served-model-name does; the others still answer by their own names.
   */
  listed(): readonly { readonly id: string; readonly name: string }[] {
    const names = this.names();
    const served = names.flatMap((name) => {
      const [id] = this.#servedNames(name);
      return id === undefined ? [] : [{ id, name }];
    });
    return served.length > 0 ? served : names.map((name) => ({ id: name, name }));
  }

  /** Whether a name is the model's own or one of its served names, without an adapter behind it. */
  isNameOf(served: ServedModel, name: string): boolean {
    return served.name === name || servedNames(served).includes(name);
  }

  /** Tokenizer and further facts of any model, read once for each load. */
  assets(served: ServedModel): Promise<ModelAssets> {
    const known = this.#known.get(served.name);
    if (known?.served === served) return known.assets;
    const assets = readAssets(served, this.#server, this.#createChat);
    this.#known.set(served.name, { served, assets });
    // A failure is told to who asked; the next request tries again.
    assets.catch(() => {
      if (this.#known.get(served.name)?.assets === assets) this.#known.delete(served.name);
    });
    return assets;
  }

  #signature(served: ServedModel): ReturnType<typeof textSignature> {
    const known = this.#signatures.get(served);
    if (known !== undefined) return known;
    const signature = textSignature(served);
    this.#signatures.set(served, signature);
    return signature;
  }

  #served(name: string): { readonly served: ServedModel; readonly adapter: AdapterOfName | undefined } {
    const exact = this.#byAnyName(name);
    if (exact instanceof ServerError === false) return { served: exact, adapter: undefined };
    const own = this.adapters.find(name);
    if (own !== undefined) return { served: this.#server.model(own.base, ""), adapter: { adapterPath: own.path } };
    const colonAt = name.lastIndexOf(":");
    const base = colonAt <= 0 ? exact : this.#byAnyName(name.slice(0, colonAt));
    const adapter = name.slice(colonAt + 1);
    if (base instanceof ServerError || adapter === "" || !takesAdapters(base)) throw exact;
    const loaded = this.adapters.find(adapter);
    return { served: base, adapter: loaded?.base === base.name ? { adapterPath: loaded.path } : { adapter } };
  }

  /** By its own name first. */
  #byAnyName(name: string): ServedModel | ServerError {
    const own = this.#try(name);
    if (own instanceof ServerError === false) return own;
    const renamed = this.names().find((each) => this.#servedNames(each).includes(name));
    return renamed === undefined ? own : this.#try(renamed);
  }

  #servedNames(name: string): readonly string[] {
    const served = this.#try(name);
    return served instanceof ServerError ? [] : servedNames(served);
  }

  #try(name: string): ServedModel | ServerError {
    try {
      return this.#server.model(name, "");
    } catch (error) {
      return ServerError.from(error);
    }
  }
}

/** vLLM's models name the adapter in their sampling parameters. */
function takesAdapters({ inputs }: ServedModel): boolean {
  return inputs.has("lora_name") || inputs.has("sampling_parameters");
}

/** The parameter `served_model_name`: further names of a model, the one for lists first. */
export function servedNames(served: Pick<ServedModel, "config">): readonly string[] {
  const text = parameterText(served, "served_model_name") ?? "";
  return text.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()]));
}

/** Names of the adapters in a model's `lora_adapters`: "name:folder,name:folder". */
export function adapterNames(served: Pick<ServedModel, "config">): readonly string[] {
  const text = parameterText(served, "lora_adapters") ?? "";
  return text.split(",").flatMap((entry) => {
    const name = entry.slice(0, entry.indexOf(":")).trim();
    return name === "" ? [] : [name];
  });
}
