/**
 * Lists, loads and unloads models (Triton's model repository extension, docs/protocol/extension_model_repository.md).
 * The server must run with explicit model control.
 */

import { decodeUtf8 } from "@nereid/wire";
import type { CallOptions } from "./deadline.ts";
import { encodeJson, type JsonRecord, parseJson } from "./json-document.ts";
import { type RepositoryEntry, readRepositoryIndex } from "./metadata.ts";
import { repositoryPath } from "./paths.ts";
import type { HttpResponse, Transport } from "./transport.ts";

const INDEX_PATH = "/v2/repository/index";

export interface IndexOptions extends CallOptions {
  /** Only ready models. */
  readonly isReady?: boolean | undefined;
}

export interface LoadOptions extends CallOptions {
  /** Replaces the model's configuration; field names as in `config.pbtxt`. */
  readonly config?: JsonRecord | undefined;
}

export interface UnloadOptions extends CallOptions {
  /** Also unloads models that only this ensemble needs. */
  readonly unloadDependents?: boolean | undefined;
}

export class RepositoryClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async index(options: IndexOptions = {}): Promise<readonly RepositoryEntry[]> {
    const { bytes } = await this.#post(INDEX_PATH, { ready: options.isReady }, options);
    return readRepositoryIndex(parseJson(bytes, INDEX_PATH));
  }

  /** Resolves when the model is ready. @throws ClientError with the reason if it fails */
  async load(name: string, options: LoadOptions = {}): Promise<void> {
    const { config } = options;
    const parameters = config === undefined ? undefined : { config: textOf(config) };
    await this.#post(repositoryPath(name, "load"), { parameters }, options);
  }

  async unload(name: string, options: UnloadOptions = {}): Promise<void> {
    const { unloadDependents } = options;
    const parameters = unloadDependents === undefined ? undefined : { unload_dependents: unloadDependents };
    await this.#post(repositoryPath(name, "unload"), { parameters }, options);
  }

  #post(path: string, body: JsonRecord, options: CallOptions): Promise<HttpResponse> {
    const headers = { "content-type": "application/json" };
    return this.#transport.read({ method: "POST", path, headers, body: encodeJson(body) }, options);
  }
}

function textOf(document: JsonRecord): string {
  const bytes = encodeJson(document);
  return decodeUtf8(bytes, 0, bytes.length);
}
