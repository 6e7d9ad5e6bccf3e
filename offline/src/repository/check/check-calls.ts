/** Checks calls between models: existence, names, types and shapes. Pure over examined models. */
import { parseBlsSettings } from "@nereid/server/backend/bls/bls-settings";
import { nearestName } from "@nereid/server/config/suggest";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { ServerError } from "@nereid/server/core/server-error";
import { checkEnsemble } from "@nereid/server/repository/load/ensemble-check";
import { composingModels, loadWaves } from "@nereid/server/repository/load/load-order";
import { adviceFor } from "./advice.ts";
import { lineOfMessage, lineOfName } from "./config-lines.ts";
import type { ExaminedModel } from "./examined-model.ts";

/** Name in the message whose line is relevant: the first of these that occurs. */
const PLACES = [/non-existing (?:in|out)put (\S+)/, /input (\S+) in model/, /ensemble tensor ([^\s:]+)/];

export function checkCalls(models: ReadonlyMap<string, ExaminedModel>): void {
  const needs = (name: string): readonly string[] => {
    const config = models.get(name)?.config;
    return config === undefined ? [] : composingModels(config);
  };
  const { waves, circular } = loadWaves([...models.keys()], needs);
  for (const [name, { message }] of circular) {
    const model = models.get(name);
    const callee = needs(name).find((each) => circular.has(each)) ?? "";
    model?.add("error", message, adviceFor(message), { line: lineOfName(model.text, callee) });
  }
  for (const model of waves.flat().flatMap((name) => models.get(name) ?? [])) {
    if (model.config?.ensemble_scheduling !== undefined) checkSteps(model, model.config, models);
    else if (model.config?.backend === "bls") checkPipeline(model, model.config, models);
  }
}

function checkSteps(model: ExaminedModel, config: ModelConfig, models: ReadonlyMap<string, ExaminedModel>): void {
  const missing = composingModels(config).filter((name) => !isThere(model, name, models));
  if (missing.length > 0) return;
  if (composingModels(config).some((name) => !isDeclared(models.get(name)?.config))) return; // the model reports it when it runs
  try {
    const called = config.ensemble_scheduling?.step.map((step) => models.get(step.model_name)) ?? [];
    checkEnsemble(config, (step) => called[step]?.servedVersions ?? []);
  } catch (error) {
    const { message } = ServerError.from(error);
    const name = PLACES.map((place) => place.exec(message)?.[1]).find((each) => each !== undefined);
    const line = lineOfName(model.text, name ?? "");
    model.add("error", message, adviceFor(message), { line: line ?? lineOfMessage(model.text, message) });
  }
}

/** Whether a called model can exist; else the caller gets the finding. */
function isThere(caller: ExaminedModel, name: string, models: ReadonlyMap<string, ExaminedModel>): boolean {
  const model = models.get(name);
  const line = lineOfName(caller.text, name);
  if (model === undefined) {
    const nearest = nearestName(name, models.keys());
    const meant = nearest === undefined ? "" : `Write '${nearest}' if that is meant, or `;
    caller.add(
      "error",
      `it calls model '${name}', which is not in the repository`,
      `${meant}add a model of that name`,
      { line },
    );
    return false;
  }
  if (model.isLoadable) return true;
  caller.add("error", `it calls model '${name}', which will not load`, `Fix '${name}' first: see its own errors`, {
    line,
  });
  return false;
}

function checkPipeline(model: ExaminedModel, config: ModelConfig, models: ReadonlyMap<string, ExaminedModel>): void {
  const { preprocessing, engine, postprocessing, draftEngine } = parseBlsSettings(config);
  for (const name of [preprocessing, engine, postprocessing, draftEngine]) {
    if (name === undefined || models.get(name)?.isLoadable === true) continue;
    const problem = `requests to it call model '${name}', which ${models.has(name) ? "will not load" : "is not in the repository"}`;
    model.add("warning", problem, "Add or fix that model, or name another in the parameters", {
      line: lineOfName(model.text, name),
    });
  }
}

function isDeclared(config: ModelConfig | undefined): boolean {
  return config !== undefined && config.input.length > 0 && config.output.length > 0;
}
