/**
 * Registers the instances of a model version with the rate limiter, each with the resources of its group (Triton
 * documentation, "Rate Limiter").
 */
import type { ModelInstance } from "../../backend/backend.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { InstanceLimits } from "../../scheduler/instance-pool.ts";
import type { Executor, RateLimiter } from "../../scheduler/rate-limiter.ts";
import { instanceSpecs } from "./instance-specs.ts";

/**
 * Registers the instances in configuration order; disposing unregisters them. Undefined without a limiter. @throws
 * ServerError invalid_argument when the resources can never suffice
 */
export function limitInstances(
  limiter: RateLimiter | undefined,
  config: ModelConfig,
  instances: readonly ModelInstance[],
  gpusPerInstance?: number,
): (InstanceLimits & Disposable) | undefined {
  if (limiter === undefined) return undefined;
  const executors = instanceSpecs(config, gpusPerInstance).map(({ group, spec }): Executor => {
    const { resources = [], priority = 0 } = group.rate_limiter ?? {};
    const needs = resources.map(({ name, count, global }) => ({
      name,
      count,
      device: global ? undefined : spec.deviceId,
    }));
    return { needs, priority };
  });
  const byInstance = new Map(instances.map((instance, i) => [instance, executors[i]]));
  limiter.register(executors);
  return {
    limiter,
    executorOf(instance) {
      const executor = byInstance.get(instance);
      if (executor === undefined)
        throw new Error(`instance '${instance.name}' is not registered with the rate limiter`);
      return executor;
    },
    [Symbol.dispose]: () => limiter.unregister(executors),
  };
}
