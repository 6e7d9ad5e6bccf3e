/** An engine host that is killed at random points under load. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { KeepAliveClient } from "./hostile-http.ts";
import { createModelRepository, EXAMPLES } from "./model-repository.ts";
import { type FaultSubject, type FaultTally, runFaults, stopSubject, strikeProcess } from "./process-faults.ts";
import type { Random } from "./random.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

const PROGRAM = "engine-host";
const SIGNALS = ["SIGKILL", "SIGSEGV"] as const;
const NUM_CLIENTS = 8;
const NUM_TOKENS = 6;
const FAILED = /engine host of '[^']+' ended unexpectedly \(signal SIG(?:KILL|SEGV)\) while it served this request/;
/** The last load took long: nobody waits for the next one. */
const REFUSED = /engine host of '[^']+' is not ready: it is being restarted/;
const TINY = fileURLToPath(new URL("../../examples/nereid-tiny", import.meta.url));

/** Runs until `isOver` says so. Rejects at the first thing that is not as it should be. */
export async function runEngineFaults(random: Random, isOver: (points: number) => boolean): Promise<FaultTally> {
  const config = readFileSync(join(EXAMPLES, "tensorrt_llm/config.pbtxt"), "utf8");
  const copyOf = (name: string): string =>
    config.replace('name: "tensorrt_llm"', `name: "${name}"`).replaceAll("../../nereid-tiny", TINY);
  await using repository = await createModelRepository({
    files: { "work/config.pbtxt": copyOf("work"), "copy/config.pbtxt": copyOf("copy") },
  });
  const server = await startServerProcess({
    repositories: [repository.path],
    flags: ["--model-control-mode=explicit", "--load-model=work"],
  });
  const subject = createSubject(server);
  try {
    return await runFaults(subject, random, isOver);
  } finally {
    await stopSubject(subject);
  }
}

function createSubject(server: ServerProcess): FaultSubject {
  const parts = { server, model: "work", copy: "copy", program: PROGRAM, numClients: NUM_CLIENTS };
  return { ...parts, send, strike: (random) => strikeProcess(parts, SIGNALS, random) };
}

async function send(client: KeepAliveClient, number: number): Promise<boolean> {
  const body = JSON.stringify({
    input_ids: [5 + (number % 50), 7, 9],
    input_lengths: 3,
    request_output_len: NUM_TOKENS,
  });
  const { status, body: answer } = await client.send({ path: "/v2/models/work/generate_stream", body });
  const text = answer.toString();
  if (status === 200 && !text.includes('"error"')) return true;
  assert.match(text, status === 503 ? REFUSED : FAILED);
  return false;
}
