/**
 * Custom batching: `batchstrategy.ts` of a model says which requests share a batch. It runs on the server's event loop, for
 * its answer is needed at once: one file, without imports of its own.
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, isAbsolute, join } from "node:path";
import type { BatchJudge, BatchStrategy } from "../../core/batch-strategy.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { describeThrown, invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import type * as Api from "./model-api.ts";
import { stripTypes } from "./worker/strip-types.ts";

const PARAMETER = "TRITON_BATCH_STRATEGY_PATH";
const FILES: readonly string[] = ["batchstrategy.ts", "batchstrategy.mts", "batchstrategy.js", "batchstrategy.mjs"];
const ENDINGS: ReadonlySet<string> = new Set(FILES.map((file) => extname(file)));
const MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY";

export interface StrategyPlace {
  readonly config: ModelConfig;
  readonly modelFolder: string;
  readonly versionFolder: string;
  readonly log: Logger;
}

/** Undefined when the model has none. @throws ServerError when it has one that cannot be used */
export async function loadBatchStrategy(place: StrategyPlace): Promise<BatchStrategy | undefined> {
  const path = strategyFile(place);
  if (path === undefined) return undefined;
  try {
    const text = await readFile(path, "utf8");
    const code = /ts$/.test(path) ? await stripTypes(text, path) : text;
    // By content: a file that has changed is another module, and the same one loaded again is not.
    const url = `data:text/javascript;base64,${Buffer.from(code).toString("base64")}`;
    return strategyOf(expectStrategy(await import(url)), place);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServerError("invalid_argument", `${path} cannot be used: ${reason}`, { cause: error });
  }
}

function strategyFile({ config, modelFolder, versionFolder }: StrategyPlace): string | undefined {
  const written = config.parameters[PARAMETER]?.string_value ?? "";
  if (written === "") {
    const places = [versionFolder, modelFolder].flatMap((folder) => FILES.map((file) => join(folder, file)));
    return places.find((path) => existsSync(path));
  }
  const replaced = written.replaceAll(MODEL_DIRECTORY, modelFolder);
  const path = isAbsolute(replaced) ? replaced : join(modelFolder, replaced);
  if (ENDINGS.has(extname(path)) && existsSync(path)) return path;
  const text = `${PARAMETER} of model '${config.name}' must name a file that ends in .ts or .js, got '${written}' (libraries in C++ are not for Node: write the same functions in TypeScript)`;
  throw invalidArgument(text);
}

/** @throws TypeError */
function expectStrategy(loaded: { readonly default?: unknown }): Api.BatchStrategy<unknown> {
  const strategy: unknown = loaded.default ?? loaded;
  if (isStrategy(strategy)) return strategy;
  throw new TypeError("expected an export 'includeRequest', a function of a batch and a request");
}

function isStrategy(value: unknown): value is Api.BatchStrategy<unknown> {
  if (typeof value !== "object" || value === null || !("includeRequest" in value)) return false;
  return typeof value.includeRequest === "function";
}

function strategyOf(strategy: Api.BatchStrategy<unknown>, { config, log }: StrategyPlace): BatchStrategy {
  const views = new WeakMap<InferRequest, Api.BatchRequest>();
  const parameters = Object.fromEntries(
    Object.entries(config.parameters).map(([key, value]) => [key, value.string_value]),
  );
  const context = { name: config.name, maxBatchSize: config.max_batch_size, parameters };
  const viewOf = (request: InferRequest, batchSize: number): Api.BatchRequest => {
    const view = views.get(request) ?? batchRequest(request, batchSize);
    views.set(request, view);
    return view;
  };
  const failed = (error: unknown): false => {
    log.error("typescript", `batch strategy of model '${config.name}' failed: ${describeThrown(error)}`);
    return false;
  };
  return {
    startBatch(): BatchJudge {
      try {
        const batch: unknown = strategy.startBatch?.(context) ?? {};
        return (request, batchSize) => {
          try {
            return strategy.includeRequest(batch, viewOf(request, batchSize)) === true;
          } catch (error) {
            return failed(error);
          }
        };
      } catch (error) {
        return () => failed(error);
      }
    },
  };
}

function batchRequest(request: InferRequest, batchSize: number): Api.BatchRequest {
  const inputs: Record<string, Api.BatchInput> = Object.create(null);
  for (const { name, datatype, shape, data } of request.inputs)
    inputs[name] = { datatype, shape, byteSize: data.length };
  const parameters: Record<string, Api.ParameterValue> = Object.create(null);
  for (const [name, value] of request.parameters) parameters[name] = typeof value === "object" ? value.double : value;
  const { id, priority, timeoutUs } = request;
  return { id, batchSize, priority, timeoutUs, inputs, parameters };
}
