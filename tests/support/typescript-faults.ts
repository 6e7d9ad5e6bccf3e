/** A TypeScript model whose threads end themselves at random points under load. */
import assert from "node:assert/strict";
import type { KeepAliveClient } from "./hostile-http.ts";
import { createModelRepository } from "./model-repository.ts";
import { eventually } from "./probe-server.ts";
import {
  type FaultSubject,
  type FaultTally,
  runFaults,
  type Stroke,
  stopSubject,
  untilModelReady,
} from "./process-faults.ts";
import type { Random } from "./random.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

const NUM_INSTANCES = 2;
const NUM_CLIENTS = 16;
const MAX_DELAY_MS = 20;
const CONFIG = `backend: "typescript"
input [ { name: "X" data_type: TYPE_INT32 dims: [ 2 ] } ]
output [ { name: "Y" data_type: TYPE_INT32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: ${NUM_INSTANCES} } ]`;

/** The second number: how many milliseconds later the thread ends, plus 1; 0: never. */
const MODEL = `export async function execute({ inputs }) {
  const endsIn = inputs.X.data[1];
  if (endsIn > 0) setTimeout(() => process.exit(7), endsIn - 1);
  await new Promise((resolve) => setTimeout(resolve, 10));
  return { Y: inputs.X.data };
}
`;

/** Runs until `isOver` says so. Rejects at the first thing that is not as it should be. */
export async function runTypescriptFaults(random: Random, isOver: (points: number) => boolean): Promise<FaultTally> {
  const files = ["work", "copy"].flatMap((name) => [
    [`${name}/config.pbtxt`, CONFIG],
    [`${name}/1/model.js`, MODEL],
  ]);
  await using repository = await createModelRepository({ files: Object.fromEntries(files) });
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
  const numOf = (text: string): number => server.log().split(text).length - 1;
  return {
    ...{ server, model: "work", copy: "copy", program: undefined, numClients: NUM_CLIENTS },
    send: (client, number) => send(client, number, 0),
    async strike(random): Promise<Stroke> {
      const ends = numOf("; restarting in");
      const { baseUrl } = server;
      await fetch(`${baseUrl}/v2/models/work/infer`, {
        method: "POST",
        body: bodyOf(0, 1 + random.below(MAX_DELAY_MS)),
      });
      await eventually(
        async () => numOf("; restarting in"),
        (found) => found > ends,
      );
      const startMs = performance.now();
      const recovered = async (): Promise<void> => {
        await eventually(
          async () => numOf("runs again"),
          (found) => found >= numOf("; restarting in"),
        );
        await untilModelReady(server, "work");
      };
      return { kind: "exit", startMs, recovered };
    },
  };
}

function bodyOf(number: number, endsIn: number): string {
  return JSON.stringify({ inputs: [{ name: "X", datatype: "INT32", shape: [2], data: [number, endsIn] }] });
}

async function send(client: KeepAliveClient, number: number, endsIn: number): Promise<boolean> {
  const { status, body } = await client.send({ path: "/v2/models/work/infer", body: bodyOf(number, endsIn) });
  const text = body.toString();
  if (status === 200) {
    assert.deepEqual(JSON.parse(text).outputs[0].data, [number, endsIn], "an answer of another request");
    return true;
  }
  assert.equal(status, 500, text);
  assert.match(text, /Model thread 'work_0_\d' is not healthy\. It exited with code 7/);
  return false;
}
