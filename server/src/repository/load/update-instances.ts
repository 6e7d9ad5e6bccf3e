/**
 * Updates the instances of a served version without a reload. Applies when only the instance groups of its
 * configuration differ; requests keep running. Source: Triton documentation, "Model Management", Modifying the Model
 * Repository.
 */
import type { ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { RequestContext } from "../../scheduler/scheduled-request.ts";
import { type ModelVersion, requestContext } from "../model-version.ts";
import type { PolledModel } from "../source/model-sources.ts";
import { BackendLog } from "./backend-log.ts";
import { createInstances, devicesOf, expectActiveInstance, type GroupedSpec, instanceSpecs } from "./instance-specs.ts";
import { finishConfig, type LoadContext } from "./load-model.ts";
import { warmUp } from "./warmup.ts";

/**
 * False: a reload is needed. Model files must be unchanged except for the configuration. @throws ServerError when
 * instances cannot be created
 */
export async function updateInstances(
  context: LoadContext,
  served: ModelVersion,
  polled: PolledModel,
): Promise<boolean> {
  const { model } = served;
  const backend = context.backends.get(polled.config.backend);
  if (model === undefined || backend === undefined || !served.isResizable || context.limiter !== undefined)
    return false;
  const { config } = await finishConfig(context, backend, polled, Number(served.version));
  if (withoutInstances(config) !== withoutInstances(served.config)) return false;
  if (onlyInstances(config) === onlyInstances(served.config)) return false; // a touched file requests a reload
  expectActiveInstance(config);
  const { kept, added, mayLoseInstances } = plan(served, config);
  if (!mayLoseInstances) return false;
  await context.gpuLimits?.expectRoom(config.name, devicesOf(added.map(({ spec }) => spec)));
  const fresh = await createInstances(
    added.map(({ spec }) => spec),
    model,
    new BackendLog(context.log, config.backend),
  );
  const warming = { config, modelFolder: polled.folder.path, instances: fresh, log: context.log, feed: undefined };
  try {
    await warmUp({ ...warming, context: contextOf(served, config) });
  } catch (error) {
    await Promise.allSettled(fresh.map((instance) => instance.close()));
    throw error;
  }
  void served.resize(config, inOrder(config, kept, added, fresh, model.gpusPerInstance)).catch((error: unknown) => {
    context.log.error("model_lifecycle", `instances of '${served.name}' did not close cleanly: ${String(error)}`);
  });
  return true;
}

function contextOf(
  { signature, statistics, decoupled, log, version }: ModelVersion,
  config: ModelConfig,
): RequestContext {
  return requestContext({ config, signature, statistics, decoupled, log, version: Number(version) });
}

interface Plan {
  /** Key under which instances are interchangeable. */
  readonly kept: ReadonlyMap<string, ModelInstance>;
  readonly added: readonly GroupedSpec[];
  /** Such an instance answers after its execution, so it cannot be removed when it becomes idle. */
  readonly mayLoseInstances: boolean;
}

function plan(served: ModelVersion, config: ModelConfig): Plan {
  const gpus = served.model?.gpusPerInstance;
  const before = instanceSpecs(served.config, gpus).map((one, i) => [identityOf(one), served.instances[i]] as const);
  const wanted = new Set(instanceSpecs(config, gpus).map(identityOf));
  const kept = new Map<string, ModelInstance>();
  const lost: ModelInstance[] = [];
  for (const [identity, instance] of before) {
    if (instance === undefined) continue;
    if (wanted.has(identity)) kept.set(identity, instance);
    else lost.push(instance);
  }
  const added = instanceSpecs(config, gpus).filter((one) => !kept.has(identityOf(one)));
  const answersLater = served.decoupled || lost.some((instance) => instance.answersLater === true);
  return { kept, added, mayLoseInstances: lost.length === 0 || !answersLater };
}

function inOrder(
  config: ModelConfig,
  kept: ReadonlyMap<string, ModelInstance>,
  added: readonly GroupedSpec[],
  fresh: readonly ModelInstance[],
  gpusPerInstance: number | undefined,
): ModelInstance[] {
  const made = new Map([...kept, ...added.map((one, i) => [identityOf(one), fresh[i]] as const)]);
  return instanceSpecs(config, gpusPerInstance).flatMap((one) => made.get(identityOf(one)) ?? []);
}

/** An instance stays when its name, device and group settings except the count are unchanged. */
function identityOf({ group, spec }: GroupedSpec): string {
  return JSON.stringify([{ ...group, count: 0 }, spec]);
}

function onlyInstances({ instance_group, version_policy }: ModelConfig): string {
  return JSON.stringify([instance_group, version_policy]);
}

function withoutInstances(config: ModelConfig): string {
  return JSON.stringify({ ...config, instance_group: [], version_policy: undefined });
}
