import assert from "node:assert/strict";
import { test } from "node:test";
import { createTestRepository, identityConfig } from "../../../../tests/fakes/model-repository.ts";
import { createIdentityBackend } from "../../backend/testing/identity.ts";
import { GpuLimits } from "./gpu-limits.ts";

test("expectRoom() refuses a device that is used beyond its limit, and no other", async () => {
  const used = new Map([
    [0, 0.61],
    [1, 0.99],
    [2, 0.6],
  ]);
  const limits = new GpuLimits(
    new Map([
      [0, 0.6],
      [2, 0.6],
      [3, 0],
    ]),
    async (device) => used.get(device),
  );
  await limits.expectRoom("m", [1, 2, 3]);
  await assert.rejects(limits.expectRoom("m", [2, 0]), {
    code: "unavailable",
    message: "unable to load model 'm', memory limit set for GPU 0 has exceeded, model loading is rejected.",
  });
});

/** The identity model as if it could use two GPUs. */
function onGpus(): ReturnType<typeof createIdentityBackend> {
  const gpus = { ids: [0, 1], minComputeCapability: 0 };
  return { ...createIdentityBackend(), name: "onGpus", gpus };
}

test("a model whose GPU is full is refused until there is room, and what was served stays", async () => {
  let share = 0.2;
  const config = identityConfig("instance_group { kind: KIND_GPU gpus: [ 1 ] }").replace('"identity"', '"onGpus"');
  const files = { "m/config.pbtxt": config, "m/1/.keep": "", "cpu/config.pbtxt": identityConfig(), "cpu/1/.keep": "" };
  const gpuLimits = new GpuLimits(new Map([[1, 0.5]]), async () => share);
  await using repository = createTestRepository(files, [onGpus()], undefined, { gpuLimits });
  await repository.manager.load("m", {});
  const served = repository.registry.lookUp("m", "");
  share = 0.7;
  repository.write("m/1/weights", "newer");
  await assert.rejects(repository.manager.load("m", {}), /memory limit set for GPU 1 has exceeded/);
  assert.equal(repository.registry.lookUp("m", ""), served);
  await repository.manager.load("cpu", {});
  share = 0.2;
  await repository.manager.load("m", {});
  assert.notEqual(repository.registry.lookUp("m", ""), served);
});
