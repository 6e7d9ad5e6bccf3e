/**
 * Updates the instances of a served version without a reload. Applies when at most the instance groups and
 * the version policy of its configuration differ; requests keep running. Source: Triton documentation, "Model Management", Modifying the Model
 * Repository.
 */
import type { InstanceSpec, ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { RequestContext } from "../../scheduler/scheduled-request.ts";
import { SequenceFeed } from "../../scheduler/sequence/feed.ts";
import { type ModelVersion, requestContext } from "../model-version.ts";
import type { PolledModel } from "../source/model-sources.ts";
import { BackendLog } from "./backend-log.ts";
import { readInitialStates } from "./initial-states.ts";
import { createInstances, devicesOf, expectActiveInstance, type GroupedSpec, instanceSpecs } from "./instance-specs.ts";
import { backendOf, finishConfig, type LoadContext } from "./load-model.ts";
import { warmUp } from "./warmup.ts";

/**
 * False: a reload is needed. Model files must be unchanged except for the configuration. Resolves when instances that are
 * not wanted any more have ended their executions and are closed; those of a model with sequences close with the sequences. @throws ServerError when instances cannot be created
 */
export async function updateInstances(
  context: LoadContext,
  served: ModelVersion,
  polled: PolledModel,
): Promise<boolean> {
  const { model } = served;
  const backend = await backendOf(context, polled, Number(served.version));
  if (model === undefined || backend === undefined) return false;
  const { config } = await finishConfig(context, backend, polled, Number(served.version));
  if (withoutInstances(config) !== withoutInstances(served.config)) return false;
  expectActiveInstance(config);
  const { wanted, added, removed } = plan(served, config);
  if (!canChange(served, added.length, removed)) return false;
  await context.gpuLimits?.expectRoom(config.name, devicesOf(added));
  const fresh = await createInstances(added, model, new BackendLog(context.log, config.backend));
  const made = fresh.values();
  const instances = wanted.flatMap((kept) => kept ?? made.next().value ?? []);
  const feed =
    config.sequence_batching === undefined
      ? undefined
      : new SequenceFeed(config, readInitialStates(config, polled.folder.path));
  const warming = { config, modelFolder: polled.folder.path, instances: fresh, log: context.log, feed };
  try {
    await warmUp({ ...warming, context: contextOf(served, config) });
    served.limits?.add(instanceSpecs(config, model.gpusPerInstance), instances);
  } catch (error) {
    await Promise.allSettled(fresh.map((instance) => instance.close()));
    throw error;
  }
  const closed = served.resize(config, instances).catch((error: unknown) => {
    context.log.error("model_lifecycle", `instances of '${served.name}' did not close cleanly: ${String(error)}`);
  });
  // A sequence may last as long as its client likes: its instance goes with its end.
  if (feed === undefined) await closed;
  return true;
}

/** Answers after the execution bind requests to the instances that there are, except in sequences, which keep theirs. */
function canChange(served: ModelVersion, added: number, removed: readonly ModelInstance[]): boolean {
  if (added === 0 && removed.length === 0) return true;
  if (!served.isResizable) return false;
  if (served.config.sequence_batching !== undefined) return true;
  const answersLater = served.decoupled || removed.some((instance) => instance.answersLater === true);
  return removed.length === 0 || !answersLater;
}

function contextOf(
  { signature, statistics, decoupled, log, version }: ModelVersion,
  config: ModelConfig,
): RequestContext {
  return requestContext({ config, signature, statistics, decoupled, log, version: Number(version) });
}

interface Plan {
  /** An instance for each wanted one, in the order of the configuration; undefined: the next of `added`. */
  readonly wanted: readonly (ModelInstance | undefined)[];
  readonly added: readonly InstanceSpec[];
  readonly removed: readonly ModelInstance[];
}

/** An instance stays where one with its settings is wanted, first for the one of its name. */
function plan(served: ModelVersion, config: ModelConfig): Plan {
  const gpus = served.model?.gpusPerInstance;
  const before = instanceSpecs(served.config, gpus).flatMap(({ group, spec }, i) => {
    const instance = served.instances[i];
    return instance === undefined ? [] : [{ instance, name: spec.name, identity: identityOf({ group, spec }) }];
  });
  const specs = instanceSpecs(config, gpus);
  const take = (identity: string, name: string | undefined): ModelInstance | undefined => {
    const at = before.findIndex((one) => one.identity === identity && (name === undefined || one.name === name));
    return at < 0 ? undefined : before.splice(at, 1)[0]?.instance;
  };
  const named = specs.map((one) => take(identityOf(one), one.spec.name));
  const wanted = specs.map((one, i) => named[i] ?? take(identityOf(one), undefined));
  return {
    wanted,
    added: specs.filter((_, i) => wanted[i] === undefined).map(({ spec }) => spec),
    removed: before.map(({ instance }) => instance),
  };
}

/** Names and counts do not matter (`EquivalentInInstanceConfig` of Triton's core). */
function identityOf({ group, spec }: GroupedSpec): string {
  return sortedJson([
    { ...group, name: "", count: 0 },
    { ...spec, name: "" },
  ]);
}

function withoutInstances(config: ModelConfig): string {
  return sortedJson({ ...config, instance_group: [], version_policy: undefined });
}

/** Equal for equal messages: fields of a file and of a load request come in different orders. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
