/**
 * POST /v1/models/{model}/load and /unload. A model that is loaded is not loaded again, unlike in the inference protocol.
 * Source: Triton's OpenAI front end (python/openai), "Model management".
 */
import type { ModelServer } from "../../core/model-server.ts";
import { invalidRequest, unknownModel } from "../api/api-error.ts";

export class ModelManagement {
  readonly #server: Pick<ModelServer, "isExplicit" | "index" | "load" | "unload">;
  /** By model: the end of its last change. Changes of one model wait for each other. */
  readonly #changes = new Map<string, Promise<unknown>>();

  constructor(server: Pick<ModelServer, "isExplicit" | "index" | "load" | "unload">) {
    this.#server = server;
  }

  /** Resolves when the model serves. @throws ApiError @throws ServerError why it could not be loaded */
  load(name: string): Promise<void> {
    this.#expectExplicit();
    return this.#change(name, async () => {
      if (name.trim() === "") throw invalidRequest("model", "invalid_value", "The name of the model is empty.");
      if (this.#isLoaded(name)) throw invalidRequest("model", null, `Model '${name}' is already loaded`);
      await this.#server.load(name, {});
    });
  }

  /** Resolves when new requests are refused. @throws ApiError model_not_found */
  unload(name: string): Promise<void> {
    this.#expectExplicit();
    return this.#change(name, async () => {
      if (!this.#isLoaded(name)) throw unknownModel(name);
      await this.#server.unload(name, false);
    });
  }

  #isLoaded(name: string): boolean {
    return this.#server.index(true).some((row) => row.name === name);
  }

  /** @throws ApiError */
  #expectExplicit(): void {
    if (this.#server.isExplicit) return;
    throw invalidRequest(null, null, "Model load/unload requires --model-control-mode=explicit");
  }

  async #change(name: string, run: () => Promise<void>): Promise<void> {
    const before = this.#changes.get(name) ?? Promise.resolve();
    const change = before.then(run);
    const end = change.catch(() => undefined);
    this.#changes.set(name, end);
    await end;
    if (this.#changes.get(name) === end) this.#changes.delete(name);
    return change;
  }
}
