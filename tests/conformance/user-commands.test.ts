/**
 * Commands and a client program out of notes that users of Triton wrote for themselves, as they stand there: only host and port are
 * replaced. The notes are not part of this repository; without them the tests are skipped.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { EXAMPLES, SIMPLE_AND_PIPELINE } from "../support/model-repository.ts";
import { clientVenv, runPython } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NOTES = fileURLToPath(new URL("../../../shared/seeds/", import.meta.url));
const CURL_NOTES = ["003_e627db785dd9c3f8.txt", "004_a6fd33f5c55aceaa.txt"];
const CLIENT_NOTE = "001_359ee27b2e8f037e.txt";
const GOLDEN_TEXT = new URL("../../examples/nereid-tiny/golden_text.json", import.meta.url);
const NUM_CURLS = 3;
const skip = existsSync(NOTES) ? false : "the notes of users are not here";
const run = promisify(execFile);

interface Recorded {
  readonly prompt: string;
  readonly text: string;
}

const recorded = JSON.parse(readFileSync(GOLDEN_TEXT, "utf8")) as readonly Recorded[];

describe("commands of users", { skip, timeout: 600_000 }, () => {
  let server: ServerProcess;
  before(async () => {
    const flags = [...SIMPLE_AND_PIPELINE, "--load-model=tensorrt_llm_bls"];
    server = await startServerProcess({ repositories: [EXAMPLES], flags });
  });
  after(async () => {
    await server.stop();
  });

  const curls = skip === false ? CURL_NOTES.flatMap((name) => curlsOf(readFileSync(`${NOTES}${name}`, "utf8"))) : [];

  it(`the notes hold ${NUM_CURLS} curl commands`, () => assert.equal(curls.length, NUM_CURLS));

  for (const [i, command] of curls.entries()) {
    it(`curl command ${i + 1} is answered with the text of the model`, async () => {
      const { stdout } = await run("bash", ["-c", command.replace(/localhost:\d+/, `localhost:${server.http}`)]);
      const answer = JSON.parse(stdout) as { readonly model_name: string; readonly text_output: string };
      assert.equal(answer.model_name, /models\/(\w+)\/generate/.exec(command)?.[1]);
      const limit = Number(/"max_tokens": (\d+)/.exec(command)?.[1]);
      assert.ok(agrees(answer.text_output, expectedText(command), limit), answer.text_output);
    });
  }

  it("the gRPC client of a note prints the text of the model", { skip: clientVenv.reason ?? false }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "nereid-client-"));
    try {
      const script = join(folder, "client.py");
      await writeFile(script, lastProgram(readFileSync(`${NOTES}${CLIENT_NOTE}`, "utf8")));
      const { prompt, text } = recorded[0] ?? { prompt: "", text: "" };
      const flags = ["-u", `127.0.0.1:${server.grpc}`, "-m", "ensemble", "-p", prompt, "-o", "40"];
      const { code, stdout, stderr } = await runPython([script, ...flags]);
      assert.equal(code, 0, stderr);
      const printed = /b(['"])(?<text>.*)\1/s.exec(stdout)?.groups?.text ?? "";
      assert.notEqual(printed, "", `printed no text: ${stdout}`);
      const start = printed.slice(0, 60).replaceAll("\\n", "\n").replaceAll("\\'", "'");
      assert.ok(text.startsWith(start), stdout);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

/** Each command begins with the word curl and ends with its code block. */
function curlsOf(note: string): string[] {
  return [...note.matchAll(/^(curl .*?)^```/gms)].map(([, command]) => command ?? "");
}

/** The program that parses the flags: the last code block. */
function lastProgram(note: string): string {
  const blocks = [...note.matchAll(/^```(?:python)?\n(.*?)^```/gms)].map(([, block]) => block ?? "");
  return blocks.findLast((block) => block.includes("argparse")) ?? "";
}

function expectedText(command: string): string {
  const prompt = /"text_input": "([^"]*)"/.exec(command)?.[1];
  const found = recorded.find((one) => one.prompt === prompt);
  assert.ok(found !== undefined, `no recorded text of ${prompt}`);
  return found.text;
}

/** One is the beginning of the other, and not by being short: a recorded text has fewer tokens than some answers, more than others. */
function agrees(answer: string, expected: string, maxTokens: number): boolean {
  const length = Math.min(answer.length, expected.length);
  return length >= Math.min(maxTokens, expected.length / 2) && answer.slice(0, length) === expected.slice(0, length);
}
