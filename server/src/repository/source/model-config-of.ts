/** The configuration of a model folder: its `config.pbtxt`, or the JSON of a load request in its place. */
import {
  emptyModelConfig,
  parseModelConfigJson,
  parseModelConfigText,
  prepareModelConfig,
} from "../../config/model/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { PolledModel } from "./model-sources.ts";

/**
 * Completed as far as files tell; the model itself may tell more when it loads.
 * @throws ServerError for a configuration that is wrong, or missing where nothing is completed
 */
export function modelConfigOf(
  folder: PolledModel["folder"],
  configJson: string | undefined,
  autoComplete: boolean,
  onNote: (note: string) => void,
): PolledModel["config"] {
  const written =
    configJson !== undefined
      ? parseModelConfigJson(configJson)
      : folder.config !== undefined
        ? parseModelConfigText(folder.config.text, folder.config.path, onNote)
        : emptyModelConfig();
  if (folder.config === undefined && configJson === undefined && !autoComplete) {
    throw new ServerError("not_found", `model '${folder.name}' has no config.pbtxt, and auto-complete is off`);
  }
  const named = folder.isMapped === true ? { ...written, name: folder.name } : written;
  for (const family of unknownMetrics(named)) {
    onNote(`Metric family '${family}' in 'metric_identifier' is not a customizable metric in Triton core.`);
  }
  return prepareModelConfig({ written: named, modelName: folder.name, artifacts: folder.artifacts, autoComplete });
}

/** Families of `model_metrics` other than the one that has options (core, metric_model_reporter.cc). */
function unknownMetrics({ model_metrics }: PolledModel["config"]): readonly string[] {
  const families = model_metrics?.metric_control.map(({ metric_identifier }) => metric_identifier?.family ?? "") ?? [];
  return families.filter((family) => family !== "" && family !== "nv_inference_first_response_histogram_ms");
}
