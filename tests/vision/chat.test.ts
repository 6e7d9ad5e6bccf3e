/** `nereid run` with a whole vision-language model: a tiny LLaVA-NeXT from its Hugging Face folder sees the image that a prompt names. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { longTestsReason } from "../support/long-tests.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const FOLDER = fileURLToPath(new URL("llava-next", import.meta.url));
const IMAGES = fileURLToPath(new URL("images", import.meta.url));

/** With nothing to read: piped text would be a part of the prompt. */
function nereid(root: string, ...args: readonly string[]): string {
  const env = { ...process.env, XDG_CACHE_HOME: root };
  const { status, stdout, stderr } = spawnSync(process.execPath, [NEREID, ...args], {
    env,
    input: "",
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

test("a prompt with the path of an image is answered by what the image shows", {
  skip: longTestsReason ?? false,
  timeout: 600_000,
}, () => {
  const root = mkdtempSync(join(tmpdir(), "nereid-see-"));
  try {
    const repository = join(root, "repository");
    nereid(root, "init-repo", "--model", FOLDER, "--images", "--repo", repository);
    const [wide = "", tall, again] = ["wide.png", "tall.jpg", "wide.png"].map((image) => {
      const prompt = `describe ${join(IMAGES, image)}`;
      return nereid(root, "run", repository, prompt, "--temperature", "0", "--max_tokens", "8");
    });
    assert.ok(wide.trim() !== "");
    assert.equal(again, wide);
    assert.notEqual(tall, wide);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
});
