import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { askLlama, askMistral, readNotes, runClient, serveNotes } from "../published/notes.ts";
import { LANGUAGE_MODEL } from "../support/llm-pipeline.ts";

const NOTES = fileURLToPath(new URL("../../../shared/seeds/", import.meta.url));
const PROMPT = "The quick brown fox jumps";
const notes = readNotes(NOTES);
const python = process.env.NEREID_TORCH_PYTHON ?? "python3";

function missing(): string | false {
  if (notes === undefined) return "the notes of users are not here";
  try {
    execFileSync(python, ["-c", "import torch, transformers, accelerate, tritonclient.grpc"], { stdio: "ignore" });
    return false;
  } catch {
    return `${python} lacks torch, transformers, accelerate or tritonclient: name one that has them in NEREID_TORCH_PYTHON`;
  }
}

test("models in Python and a client that users wrote run as they stand", {
  skip: missing(),
  timeout: 600_000,
}, async () => {
  assert.ok(notes !== undefined);
  await serveNotes(notes, { python, mistralFolder: LANGUAGE_MODEL, hasGpu: false }, async (server, folder) => {
    const [text, other] = (await askMistral(server, [PROMPT, "Once upon a time"])) as string[];
    assert.match(text ?? "", new RegExp(`^${PROMPT}.{20}`, "s"));
    assert.match(other ?? "", /^Once upon a time.{20}/s);
    assert.match(String(await askLlama(server, PROMPT)), new RegExp(`^${PROMPT}.+`, "s"));
    assert.match(await runClient(python, folder, server), new RegExp(`^b.${PROMPT}.+`, "m"));
  });
});
