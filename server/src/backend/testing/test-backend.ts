/**
 * The frame of the small backends that black-box tests of inference servers use: a function of a batch, with
 * `execute_delay_ms` before it runs, times `instance_wise_delay_multiplier` and the number of the instance where that is more.
 * No state but what the function keeps.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { invalidArgument } from "../../core/server-error.ts";
import type { Backend, BackendRequest, Batch, ModelInstance, ModelSource } from "../backend.ts";

/** Answers one request of the batch, `row` of it; may do so after it has returned. */
export type TestExecute = (request: BackendRequest, row: number) => Promise<void> | void;

/** All instances run the same function, or each has its own, which may keep state. */
export type TestModel = ({ readonly execute: TestExecute } | { readonly createExecute: () => TestExecute }) & {
  /** Frees what the model registered. */
  readonly close?: () => void;
};

/** `load` sees the configuration once per model version. */
export function createTestBackend(
  name: string,
  load: (source: ModelSource) => TestModel | Promise<TestModel>,
): Backend {
  return {
    name,
    async load(source) {
      const delayMs = numberParameter(source, "execute_delay_ms", 0);
      const multiplier = numberParameter(source, "instance_wise_delay_multiplier", 0);
      const model = await load(source);
      let instances = 0;
      return {
        async createInstance(spec) {
          const factor = Math.max(1, multiplier * instances);
          instances += 1;
          return createInstance(spec.name, delayMs * factor, executeOf(model));
        },
        close: async () => model.close?.(),
      };
    },
    close: async () => undefined,
  };
}

function executeOf(model: TestModel): TestExecute {
  return "execute" in model ? (request, row) => model.execute(request, row) : model.createExecute();
}

function createInstance(name: string, delayMs: number, executeOne: TestExecute): ModelInstance {
  return {
    name,
    execute(batch) {
      if (delayMs > 0) return sleep(delayMs).then(() => runBatch(batch, executeOne));
      return runBatch(batch, executeOne);
    },
    isReady: () => true,
    close: async () => undefined,
  };
}

function runBatch(batch: Batch, executeOne: TestExecute): Promise<void> | undefined {
  batch.computeStarted();
  const pending: Promise<void>[] = [];
  for (const [row, request] of batch.requests.entries()) {
    const running = executeOne(request, row);
    if (running !== undefined) pending.push(running);
  }
  batch.computeEnded();
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => undefined);
}

/** A numeric parameter of the configuration. @throws ServerError when it is no number >= 0 */
export function numberParameter(source: ModelSource, key: string, fallback: number): number {
  const text = source.config.parameters[key]?.string_value;
  if (text === undefined) return fallback;
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0) {
    const message = `parameter '${key}' of model '${source.name}' must be a number >= 0, got '${text}'`;
    throw invalidArgument(message);
  }
  return value;
}
