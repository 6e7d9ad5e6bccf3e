import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { FakeKernelStream } from "../../server/src/device/cuda/fake-kernel-stream.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { buildPreload } from "./build-preload.ts";
import { injectFault, parseFault } from "./gpu-fault.ts";

test("parseFault() wants a GPU, a number of steps and a place to note it", () => {
  assert.deepEqual(parseFault("1:40:/tmp/m"), { ordinal: 1, numSteps: 40, marker: "/tmp/m" });
  for (const text of [undefined, "", "1", "1:2", "1:2:m", "a:2:/m"]) {
    assert.throws(() => parseFault(text), /a fault expected as <GPU>:<steps>:/);
  }
});

function temporaryFolder(t: { after(fn: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), "nereid-fault-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("injectFault() breaks its GPU once, after as many steps, and no other", async (t) => {
  const marker = join(temporaryFolder(t), "marker");
  const stream = new FakeKernelStream();
  const runnerOn = (ordinal: number) =>
    ({ vocabSize: 3, device: { ordinal, stream }, run: async () => new Float32Array(1) }) as unknown as StepRunner & {
      readonly device: { readonly ordinal: number; readonly stream: never };
    };
  const input = { tokenIds: new Int32Array() } as unknown as Parameters<StepRunner["run"]>[0];
  const other = injectFault(runnerOn(0), { ordinal: 1, numSteps: 0, marker });
  await other.run(input);
  assert.equal(stream.launches.length, 0);
  const runner = injectFault(runnerOn(1), { ordinal: 1, numSteps: 2, marker });
  assert.equal(runner.vocabSize, 3);
  for (let step = 0; step < 4; step++) await runner.run(input);
  assert.equal(stream.launches.length, 1);
  assert.equal(existsSync(marker), true);
});

/** A server's folders with a maker of runners that notes launches. */
function writeServer(folder: string): string {
  for (const name of ["main", "engine/cuda"]) mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(folder, "engine/cuda/create-runner.js"),
    `export async function createCudaRunner({ ordinal }) {
  const stream = {
    kernel: (spec) => ({ spec }),
    launch: (kernel) => process.stdout.write(\`launched \${kernel.spec.name}\\n\`),
  };
  return { device: { ordinal, stream }, run: async () => process.stdout.write("step\\n") };
}\n`,
  );
  const host = join(folder, "main/engine-host.js");
  writeFileSync(
    host,
    `import { createCudaRunner } from "../engine/cuda/create-runner.js";
const runner = await createCudaRunner({ ordinal: 0 });
for (let i = 0; i < 3; i++) await runner.run();\n`,
  );
  return host;
}

test("the built preload brings the fault into a server by NODE_OPTIONS alone, and nothing else does", async (t) => {
  const folder = temporaryFolder(t);
  await buildPreload(join(folder, "preload"));
  const host = writeServer(join(folder, "server"));
  const marker = join(folder, "marker");
  const run = (options: string): string => {
    const env = { ...process.env, NODE_OPTIONS: options, NEREID_TEST_GPU_FAULT: `0:1:${marker}` };
    const { status, stdout, stderr } = spawnSync(process.execPath, [host], { env, encoding: "utf8" });
    assert.equal(status, 0, stderr);
    return stdout;
  };
  assert.equal(run(""), "step\nstep\nstep\n");
  assert.equal(existsSync(marker), false);
  const preload = pathToFileURL(join(folder, "preload/preload.mjs")).href;
  assert.match(run(`--import=${preload}`), /^step\nlaunched add\nstep\nstep\n$/);
  assert.equal(existsSync(marker), true);
});
