/**
 * From configuration text to the frozen object, in two steps: when a model is found, and when it is loaded. A failure
 * in the first creates no version; a failure in the second makes the version unavailable.
 */
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import { type OnNote, parseTextMessage } from "../pbtxt/text-format.ts";
import { autoComplete } from "./auto-complete.ts";
import { fillBackendFields, type ModelArtifact } from "./backend-fields.ts";
import { deepFreeze } from "./deep-freeze.ts";
import { completeWritten } from "./fill-defaults.ts";
import { parseJsonMessage } from "./json-form.ts";
import type { DescribedModel } from "./model-description.ts";
import { normalizeInstanceGroups, normalizeModelConfig } from "./normalize.ts";
import { validateModelConfig } from "./validate.ts";
import { type GpuAvailability, validateInstanceGroups } from "./validate-instances.ts";
import { validateModelIo } from "./validate-io.ts";
import type { WrittenMessage } from "./written-message.ts";

const DEFAULT_MAX_BATCH_SIZE = 4;

/** @throws ServerError with `file:line:column` */
export function parseModelConfigText(text: string, file: string, onNote?: OnNote): ModelConfig {
  return deepFreeze(completeWritten(parseTextMessage(text, file, "ModelConfig", onNote)));
}

/** The `config` parameter of a load request. @throws ServerError beginning with "Invalid config override: " */
export function parseModelConfigJson(json: string): ModelConfig {
  return deepFreeze(completeWritten(parseJsonMessage(json, "ModelConfig")));
}

/** Defaults for a model without `config.pbtxt`. */
export function emptyModelConfig(): ModelConfig {
  return deepFreeze(completeWritten({}));
}

export interface FoundModel {
  readonly written: ModelConfig;
  /** Name of the folder. */
  readonly modelName: string;
  /** Content of the (first) version folder; empty when there is none. */
  readonly artifacts: readonly ModelArtifact[];
  readonly autoComplete: boolean;
}

/** First step, when the model is found. @throws ServerError: the model cannot be polled */
export function prepareModelConfig({ written, modelName, artifacts, autoComplete }: FoundModel): ModelConfig {
  const filled = fillBackendFields(written, modelName, artifacts);
  const normalized = normalizeModelConfig(filled);
  validateModelConfig(normalized);
  if (!autoComplete) validateModelIo(normalized);
  if (written.name !== "" && written.name !== modelName) {
    throw invalidArgument(
      `unexpected directory name '${modelName}' for model '${written.name}', directory name must equal model name`,
    );
  }
  return deepFreeze(normalized);
}

export interface ModelToLoad {
  /** The result of the first step. */
  readonly prepared: ModelConfig;
  /** The model's description from the backend; undefined when it has none. */
  readonly description: DescribedModel | undefined;
  readonly autoComplete: boolean;
  /** `--backend-config` of the backend, over the global ones. */
  readonly settings: ReadonlyMap<string, string>;
  readonly gpus: GpuAvailability;
}

/** Second step, when the model is loaded. @throws ServerError: the version becomes unavailable for this reason */
export function finishModelConfig({ prepared, description, settings, gpus, ...model }: ModelToLoad): ModelConfig {
  const completed =
    model.autoComplete && description !== undefined
      ? autoComplete(prepared, description, defaultMaxBatchSize(settings))
      : prepared;
  const normalized = normalizeInstanceGroups(normalizeModelConfig(completed), gpus.ids, gpus.byRequestOnly);
  validateInstanceGroups(normalized, gpus);
  validateModelConfig(normalized);
  validateModelIo(normalized);
  return deepFreeze(inSchemaOrder(normalized));
}

/** Clients read the fields in this order, also those that normalization has added behind the others. */
function inSchemaOrder(config: ModelConfig): ModelConfig {
  return completeWritten(config as unknown as WrittenMessage);
}

/** Both steps at once, for callers with all inputs. */
export function completeModelConfig(model: FoundModel & Omit<ModelToLoad, "prepared">): ModelConfig {
  return finishModelConfig({ ...model, prepared: prepareModelConfig(model) });
}

/** The setting `default-max-batch-size`. */
export function defaultMaxBatchSize(settings: ReadonlyMap<string, string>): number {
  const text = settings.get("default-max-batch-size");
  if (text === undefined) return DEFAULT_MAX_BATCH_SIZE;
  if (/^[+-]?\d{1,9}$/.test(text)) return Math.max(Number(text), 0);
  throw invalidArgument(`backend setting 'default-max-batch-size' expects an integer, got '${text}'`);
}

/** The error for an unknown backend. */
export function unknownBackend(backend: string): ServerError {
  return invalidArgument(
    `unable to find backend library for backend '${backend}', try specifying runtime on the model configuration.`,
  );
}
