import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";
import { writeSyntheticModel } from "./synthetic-model.test-support.ts";

const MODEL = { hidden: 1024, mlp: 4096, vocab: 128_256, layers: 10 };
const LARGEST_BYTES: number = MODEL.vocab * MODEL.hidden * 2;
/** What is promised: 1.2 times the largest tensor and 200 MB. */
const ALLOWED_BYTES: number = 1.2 * LARGEST_BYTES + 200e6;

const COMMAND = new URL("../cli/convert-checkpoint.ts", import.meta.url).href;
const PROGRAM = `import { convertCheckpointCommand as run } from ${JSON.stringify(COMMAND)};
await run(process.argv.slice(1)); process.stdout.write(String(process.resourceUsage().maxRSS * 1024));`;

test("convertCheckpoint() of 567 MB needs little more memory than its largest tensor", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "convert-memory-"));
  try {
    await writeSyntheticModel(directory, MODEL);
    const flags = ["--model_dir", directory, "--output_dir", join(directory, "out"), "--dtype", "bfloat16", "--quiet"];
    const node = [
      "--conditions=nereid-source",
      "--import",
      "tsx",
      "--input-type=module",
      "-e",
      PROGRAM,
      "--",
      ...flags,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, node);
    const peakBytes = Number(stdout.split("\n").at(-1));
    t.diagnostic(`peak ${Math.round(peakBytes / 1e6)} MB, largest tensor ${Math.round(LARGEST_BYTES / 1e6)} MB`);
    assert.ok(peakBytes > 0 && peakBytes < ALLOWED_BYTES, `peak of ${peakBytes} bytes`);
  } finally {
    await rm(directory, { recursive: true });
  }
});
