import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeKernelStream } from "../device/cuda/fake-kernel-stream.ts";
import { parseFault, plantFault } from "./fault-injection.ts";
import type { StepRunner } from "./step-runner.ts";

test("parseFault() wants a GPU, a number of steps and a place to note it", () => {
  assert.deepEqual(parseFault("1:40:/tmp/m"), { ordinal: 1, numSteps: 40, marker: "/tmp/m" });
  for (const text of [undefined, "", "1", "1:2", "1:2:m", "a:2:/m"]) assert.equal(parseFault(text), undefined);
});

test("plantFault() breaks its GPU once, after as many steps, and no other", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "nereid-fault-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const marker = join(folder, "marker");
  const stream = new FakeKernelStream();
  const runnerOn = (ordinal: number) =>
    ({ vocabSize: 3, device: { ordinal, stream }, run: async () => new Float32Array(1) }) as unknown as StepRunner & {
      readonly device: { readonly ordinal: number; readonly stream: never };
    };
  const input = { tokenIds: new Int32Array() } as unknown as Parameters<StepRunner["run"]>[0];
  const other = plantFault(runnerOn(0), { ordinal: 1, numSteps: 0, marker });
  await other.run(input);
  assert.equal(stream.launches.length, 0);
  const runner = plantFault(runnerOn(1), { ordinal: 1, numSteps: 2, marker });
  assert.equal(runner.vocabSize, 3);
  for (let step = 0; step < 4; step++) await runner.run(input);
  assert.equal(stream.launches.length, 1);
  assert.equal(existsSync(marker), true);
});
