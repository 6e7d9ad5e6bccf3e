import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { measuredCommand } from "@nereid/server/cli/cli.test-support";
import { longTestsReason } from "../../../tests/support/long-tests.ts";
import { type SyntheticModel, syntheticBytes, writeSyntheticModel } from "./synthetic-model.test-support.ts";

const PLAIN: SyntheticModel = { hidden: 1024, mlp: 4096, vocab: 32_000, layers: 9 };

const PATHS: readonly (readonly [what: string, model: SyntheticModel, flags: readonly string[]])[] = [
  ["bfloat16 as it is", PLAIN, []],
  [
    "float16 over four ranks, the embedding split",
    PLAIN,
    ["--dtype", "float16", "--tp_size", "4", "--use_parallel_embedding"],
  ],
  ["INT8", PLAIN, ["--use_weight_only"]],
  ["INT4 over two ranks", PLAIN, ["--use_weight_only", "--weight_only_precision", "int4", "--tp_size", "2"]],
  ["integers of AWQ", { ...PLAIN, layers: 36, isAwq: true }, []],
  ["fused matrices of Phi-3 over two ranks", { ...PLAIN, family: "phi3" }, ["--tp_size", "2"]],
  [
    "experts as INT8 over two ranks",
    { ...PLAIN, layers: 3, family: "mixtral" },
    ["--use_weight_only", "--tp_size", "2"],
  ],
  ["matrices that lie the other way round", { ...PLAIN, layers: 13, family: "gpt2" }, []],
];

/** Splitting, packing and experts; the others by `npm run test:long`. */
const SAMPLE: ReadonlySet<string> = new Set([
  "float16 over four ranks, the embedding split",
  "INT4 over two ranks",
  "experts as INT8 over two ranks",
]);

/** The documented bound: 1.2 times the largest tensor and 200 MB. */
describe("convertCheckpoint() needs little more memory than the largest tensor", { concurrency: 2 }, () => {
  for (const [what, model, flags] of PATHS) {
    test(what, { skip: (!SAMPLE.has(what) && longTestsReason) || false }, async (t) => {
      const directory = await mkdtemp(join(tmpdir(), "convert-memory-"));
      try {
        await writeSyntheticModel(directory, model);
        const { largest, total } = syntheticBytes(model);
        const allowed = 1.2 * largest + 200e6;
        const own = ["--model_dir", directory, "--output_dir", join(directory, "out"), "--quiet", ...flags];
        const command = measuredCommand(["convert-checkpoint", ...own]);
        const { stdout } = await promisify(execFile)(process.execPath, command);
        const peak = Number(stdout.split("\n").at(-1));
        const [mb, of, at] = [peak, total, largest].map((bytes) => Math.round(bytes / 1e6));
        t.diagnostic(`peak ${mb} MB for ${of} MB whose largest tensor has ${at} MB`);
        assert.ok(total > 1.2 * allowed, `${total} bytes would fit`);
        assert.ok(peak > 0 && peak < allowed, `peak of ${peak} bytes, allowed ${allowed}`);
      } finally {
        await rm(directory, { recursive: true });
      }
    });
  }
});
