/**
 * Registers the instances of a model version with the rate limiter, each with the resources of its group (Triton
 * documentation, "Rate Limiter").
 */
import type { ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { InstanceLimits } from "../../scheduler/instance-pool.ts";
import type { Executor, RateLimiter } from "../../scheduler/rate-limiter.ts";
import { type GroupedSpec, instanceSpecs } from "./instance-specs.ts";

/** The instances of one version; disposing unregisters those that are left. */
export class LimitedInstances implements InstanceLimits, Disposable {
  readonly limiter: RateLimiter;
  readonly #executors = new WeakMap<ModelInstance, Executor>();
  /** An execution may outlive the registration of its instance. */
  readonly #registered = new Set<Executor>();

  constructor(limiter: RateLimiter) {
    this.limiter = limiter;
  }

  /**
   * Registers instances that are not registered yet, all or none. `specs` and `instances` are in the order of the
   * configuration. @throws ServerError invalid_argument when the resources can never suffice
   */
  add(specs: readonly GroupedSpec[], instances: readonly ModelInstance[]): void {
    const fresh = instances.flatMap((instance, i) => {
      const spec = specs[i];
      return spec === undefined || this.#executors.has(instance) ? [] : [{ instance, executor: executorFor(spec) }];
    });
    this.limiter.register(fresh.map(({ executor }) => executor));
    for (const { instance, executor } of fresh) {
      this.#executors.set(instance, executor);
      this.#registered.add(executor);
    }
  }

  readonly executorOf = (instance: ModelInstance): Executor => {
    const executor = this.#executors.get(instance);
    if (executor === undefined) throw new Error(`instance '${instance.name}' is not registered with the rate limiter`);
    return executor;
  };

  /** Unregisters an instance that runs nothing any more. */
  remove(instance: ModelInstance): void {
    const executor = this.#executors.get(instance);
    if (executor === undefined || !this.#registered.delete(executor)) return;
    this.limiter.unregister([executor]);
  }

  [Symbol.dispose](): void {
    this.limiter.unregister([...this.#registered]);
    this.#registered.clear();
  }
}

/** Undefined without a limiter. @throws ServerError invalid_argument when the resources can never suffice */
export function limitInstances(
  limiter: RateLimiter | undefined,
  config: ModelConfig,
  instances: readonly ModelInstance[],
  gpusPerInstance?: number,
): LimitedInstances | undefined {
  if (limiter === undefined) return undefined;
  const limited = new LimitedInstances(limiter);
  limited.add(instanceSpecs(config, gpusPerInstance), instances);
  return limited;
}

function executorFor({ group, spec }: GroupedSpec): Executor {
  const { resources = [], priority = 0 } = group.rate_limiter ?? {};
  const needs = resources.map(({ name, count, global }) => ({
    name,
    count,
    device: global ? undefined : spec.deviceId,
  }));
  return { needs, priority };
}
