import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { after, before, describe, test } from "node:test";
import { cliCommand, runCli } from "@nereid/server/cli/cli.test-support";
import { partialPath } from "@nereid/server/files/atomic-output";
import { hasModelFiles } from "@nereid/server/formats/hf/model-files";
import { writeSyntheticModel } from "../checkpoint/synthetic-model.test-support.ts";

/** Large enough that a tool is at it for a while. */
const MODEL = { hidden: 512, mlp: 2048, vocab: 16_000, layers: 5 };
const POLL_MS = 5;

let folder = "";
let model = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "killed-"));
  model = await mkdtemp(join(folder, "model-"));
  await writeSyntheticModel(model, MODEL);
});
after(() => rm(folder, { recursive: true }));

const TOOLS: readonly (readonly [name: string, argv: (output: string) => readonly string[]])[] = [
  ["convert-checkpoint", (output) => ["--model_dir", model, "--output_dir", output, "--dtype", "float32"]],
  ["build", (output) => ["--checkpoint_dir", model, "--output_dir", output, "--weight_type", "f32"]],
  [
    "quantize",
    (output) => ["--model_dir", model, "--output_dir", output, "--qformat", "int8_wo", "--eval_dataset", "none"],
  ],
];

/** Once the tool has begun to write. */
async function beginsToWrite(output: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const names = await readdir(partialPath(output)).catch(() => []);
    if (names.length > 0) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  assert.fail(`ended with ${child.exitCode} before it wrote`);
}

describe("a tool that is killed while it writes leaves nothing that loads, and works when it is run again", () => {
  for (const [name, argv] of TOOLS) {
    test(name, async () => {
      const output = join(folder, `${name}-out`);
      const child = spawn(process.execPath, cliCommand([name, ...argv(output)]), { stdio: "ignore" });
      await beginsToWrite(output, child);
      child.kill("SIGKILL");
      await once(child, "exit");
      assert.equal(hasModelFiles(output), false);
      const { code, stderr } = await runCli([name, ...argv(output)]);
      assert.equal(code, 0, stderr);
      assert.equal(hasModelFiles(output), true);
      const beside = await readdir(dirname(output));
      assert.deepEqual(
        beside.filter((other) => other.includes(name)),
        [basename(output)],
      );
    });
  }
});

test("a tool that is interrupted says so, ends with 130 and leaves nothing", async () => {
  const output = join(folder, "interrupted");
  const flags = ["--model_dir", model, "--output_dir", output, "--dtype", "float32"];
  const child = spawn(process.execPath, cliCommand(["convert-checkpoint", ...flags]), {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  await beginsToWrite(output, child);
  child.kill("SIGINT");
  const [code] = (await once(child, "close")) as [number | null];
  assert.equal(code, 130);
  assert.match(stderr, /Interrupted/);
  assert.equal((await readdir(folder)).filter((name) => name.includes("interrupted")).length, 0);
});
