/**
 * POST /api/pull: a model of the repository is loaded where clients may load, and one that serves is there already.
 * Nothing is downloaded. Source: Ollama's API reference, "Pull a Model".
 */
import { ApiError, missingParameter } from "../api/api-error.ts";
import type { ApiReply, RouteCall } from "../api/route.ts";
import { jsonReply } from "../http/http-reply.ts";
import { ModelManagement } from "../openai/manage-models.ts";
import { expectModel, type OpenAiContext } from "../openai/openai-context.ts";
import { lineOf } from "./answer-lines.ts";
import { ollamaError, ollamaErrorBody } from "./ollama-error.ts";
import { type OllamaPullRequest, servedName } from "./ollama-request.ts";

const SUCCESS = { status: "success" };

export class ModelPull {
  readonly #context: OpenAiContext;
  readonly #management: ModelManagement;

  constructor(context: OpenAiContext) {
    this.#context = context;
    this.#management = new ModelManagement(context.server);
  }

  /** @throws ApiError @throws ServerError @throws AccessRefusal forbidden */
  async pull(body: OllamaPullRequest, { access }: RouteCall): Promise<ApiReply> {
    const given = body.model ?? body.name ?? "";
    if (given === "") throw missingParameter("model");
    const name = servedName(given);
    expectModel(this.#context.models, name, access);
    const isServed = this.#isServed(name);
    if (!isServed) this.#expectInRepository(given, name);
    const loading = isServed ? Promise.resolve() : this.#management.load(name);
    if (body.stream !== false) {
      loading.catch(() => undefined); // the stream reports it
      return { status: 200, contentType: "application/x-ndjson", chunks: progress(loading) };
    }
    await loading;
    return jsonReply(SUCCESS);
  }

  #isServed(name: string): boolean {
    try {
      this.#context.models.served(name);
      return true;
    } catch {
      return false;
    }
  }

  #expectInRepository(given: string, name: string): void {
    const { server } = this.#context;
    if (server.isExplicit && server.index(false).some((row) => row.name === name)) return;
    const how = server.isExplicit
      ? "put its folder into the model repository first"
      : "add it to the model repository, or start the server with --model-control-mode=explicit to load models by request";
    const message = `model '${given}' is not served, and this server downloads no models: ${how}`;
    throw new ApiError({
      status: 404,
      type: "invalid_request_error",
      code: "model_not_found",
      param: "model",
      message,
    });
  }
}

async function* progress(loading: Promise<void>): AsyncGenerator<Uint8Array, void> {
  yield Buffer.from(lineOf({ status: "pulling manifest" }));
  try {
    await loading;
    yield Buffer.from(lineOf(SUCCESS));
  } catch (error) {
    yield Buffer.from(lineOf(ollamaErrorBody(ollamaError(error))));
  }
}
