import assert from "node:assert/strict";
import { test } from "node:test";
import type { InstanceSpec, ModelInstance } from "../../backend/backend.ts";
import { emptyModelConfig } from "../../config/model/model-config.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { Logger } from "../../observe/log.ts";
import { BackendLog } from "./backend-log.ts";
import { createInstances, instanceSpecs } from "./instance-specs.ts";

type Group = ModelConfig["instance_group"][number];

function configOf(changes: Partial<Group>): ModelConfig {
  const group: Group = {
    name: "m",
    count: 1,
    kind: "KIND_GPU",
    gpus: [0, 1],
    secondary_devices: [],
    profile: [],
    passive: false,
    host_policy: "",
    rate_limiter: undefined,
    ...changes,
  };
  return { ...emptyModelConfig(), name: "m", instance_group: [group] };
}

const specs = (changes: Partial<Group>, gpusPerInstance?: number): unknown =>
  instanceSpecs(configOf(changes), gpusPerInstance).map(({ spec }) => spec);

test("instanceSpecs() makes `count` instances on each GPU of a group", () => {
  assert.deepEqual(specs({ gpus: [1, 3], count: 2 }), [
    { name: "m_0", kind: "KIND_GPU", deviceId: 1 },
    { name: "m_0", kind: "KIND_GPU", deviceId: 3 },
    { name: "m_1", kind: "KIND_GPU", deviceId: 1 },
    { name: "m_1", kind: "KIND_GPU", deviceId: 3 },
  ]);
});

test("createInstances() names each instance and its device in the log before it is made", async () => {
  const lines: string[] = [];
  const add = (location: string, text: string): void => void lines.push(`${location}: ${text}`);
  const log: Logger = { info: add, warn: add, error: add, verbose: () => undefined, table: add };
  const groups: readonly Partial<Group>[] = [
    { gpus: [0, 2] },
    { kind: "KIND_CPU", gpus: [] },
    { kind: "KIND_MODEL", name: "own", gpus: [] },
  ];
  const all = groups.flatMap((changes) => instanceSpecs(configOf(changes)).map(({ spec }) => spec));
  const createInstance = async ({ name }: InstanceSpec): Promise<ModelInstance> => {
    lines.push(`made ${name}`);
    return { name, execute: () => undefined, isReady: () => true, close: async () => undefined };
  };
  await createInstances(all, { createInstance, close: async () => undefined }, new BackendLog(log, "python"));
  const line = "python_be: TRITONBACKEND_ModelInstanceInitialize:";
  assert.deepEqual(lines, [
    `${line} m_0 (GPU device 0)`,
    "made m_0",
    `${line} m_0 (GPU device 2)`,
    "made m_0",
    `${line} m_0 (CPU device 0)`,
    "made m_0",
    `${line} own_0 (MODEL device 0)`,
    "made own_0",
  ]);
});

test("instanceSpecs() gives an instance several neighbours of a group's GPUs when several run it together", () => {
  assert.deepEqual(specs({ gpus: [0, 1, 2, 5] }, 2), [
    { name: "m_0", kind: "KIND_GPU", deviceId: 0, deviceIds: [0, 1] },
    { name: "m_0", kind: "KIND_GPU", deviceId: 2, deviceIds: [2, 5] },
  ]);
  assert.deepEqual(specs({ kind: "KIND_CPU", gpus: [] }, 2), [{ name: "m_0", kind: "KIND_CPU", deviceId: 0 }]);
});

test("instanceSpecs() refuses GPUs that do not come out even", () => {
  assert.throws(() => specs({ gpus: [0, 1, 2] }, 2), /model m has 3 GPUs \(0, 1, 2\), expected a multiple of the 2/);
});
