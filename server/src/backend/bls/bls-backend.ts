/**
 * The backend `bls` replaces the Python model `tensorrt_llm_bls`: text in, text out, by calls of the three models of a
 * language-model pipeline. It computes nothing itself, so one instance runs any number of requests at once.
 */
import { ServerError } from "../../core/server-error.ts";
import type { Backend, BackendModel, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";
import { parseBlsSettings } from "./bls-settings.ts";
import { type Pipeline, PipelineRun } from "./pipeline-run.ts";

export function createBlsBackend(): Backend {
  return { name: "bls", load, close: () => Promise.resolve() };
}

function load({ config, models }: ModelSource): Promise<BackendModel> {
  const pipeline = { models, settings: parseBlsSettings(config), isBatching: config.max_batch_size > 0 };
  return Promise.resolve({
    createInstance: ({ name }) => Promise.resolve(new BlsInstance(name, pipeline)),
    close: () => Promise.resolve(),
  });
}

class BlsInstance implements ModelInstance {
  readonly name: string;
  readonly answersLater = true;
  readonly #pipeline: Pipeline;
  readonly #running = new Set<Promise<void>>();

  constructor(name: string, pipeline: Pipeline) {
    this.name = name;
    this.#pipeline = pipeline;
  }

  execute(batch: Batch): undefined {
    batch.computeStarted();
    for (const request of batch.requests) this.#start(request);
    batch.computeEnded();
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    await Promise.all(this.#running);
  }

  #start(request: BackendRequest): void {
    const run = new PipelineRun(this.#pipeline, request)
      .run()
      .catch((error: unknown) => request.fail(ServerError.from(error)));
    this.#running.add(run);
    void run.finally(() => this.#running.delete(run));
  }
}
