/**
 * NVIDIA's examples of Python models with their own clients, unchanged but for the ports in the clients, out of a folder that
 * the user brings: `examples` of the repository of Triton's Python backend.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createModelRepository } from "../support/model-repository.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { type Outcome, outcomeOf, runPython } from "./outcome.ts";

/** Name in the repository, model file, configuration. */
const MODELS: readonly (readonly [string, string, string?])[] = [
  ["add_sub", "add_sub/model.py", "add_sub/config.pbtxt"],
  ["nobatch_auto_complete", "auto_complete/nobatch_model.py"],
  ["batch_auto_complete", "auto_complete/batch_model.py"],
  ["bls_sync", "bls/sync_model.py", "bls/sync_config.pbtxt"],
  ["bls_async", "bls/async_model.py", "bls/async_config.pbtxt"],
  ["pytorch", "pytorch/model.py", "pytorch/config.pbtxt"],
  ["bls_decoupled_sync", "bls_decoupled/sync_model.py", "bls_decoupled/sync_config.pbtxt"],
  ["bls_decoupled_async", "bls_decoupled/async_model.py", "bls_decoupled/async_config.pbtxt"],
  ["custom_metrics", "custom_metrics/model.py", "custom_metrics/config.pbtxt"],
  ["repeat_int32", "decoupled/repeat_model.py", "decoupled/repeat_config.pbtxt"],
  ["square_int32", "decoupled/square_model.py", "decoupled/square_config.pbtxt"],
  ["resnet50", "instance_kind/model.py", "instance_kind/config.pbtxt"],
];
const CLIENTS = [
  "add_sub/client.py",
  "auto_complete/client.py",
  "bls/sync_client.py",
  "bls/async_client.py",
  "bls_decoupled/sync_client.py",
  "bls_decoupled/async_client.py",
  "custom_metrics/client.py",
  "decoupled/repeat_client.py",
  "decoupled/square_client.py",
  "pytorch/client.py",
];

/** Modules that stand in for what cannot be had offline: weights out of the network. */
const STAND_INS = new URL("stand-ins", import.meta.url).pathname;

export async function checkExamples(folder: string, python: string): Promise<Outcome[]> {
  await using repository = await createModelRepository({});
  for (const [name, model, config] of MODELS) {
    mkdirSync(join(repository.path, name, "1"), { recursive: true });
    cpSync(join(folder, model), join(repository.path, name, "1", "model.py"));
    if (config !== undefined) cpSync(join(folder, config), join(repository.path, name, "config.pbtxt"));
  }
  const env = { NEREID_PYTHON: python, PYTHONPATH: STAND_INS };
  const server = await startServerProcess({ repositories: [repository.path], env });
  try {
    const outcomes: Outcome[] = [];
    for (const client of CLIENTS) {
      const name = `example ${client}`;
      outcomes.push(await outcomeOf(name, () => runClient(join(folder, client), repository.path, python, server)));
    }
    outcomes.push(await outcomeOf("example instance_kind/model.py", () => askResnet(server)));
    return outcomes;
  } finally {
    await server.stop();
  }
}

async function runClient(file: string, scratch: string, python: string, server: ServerProcess): Promise<object> {
  const ports: Readonly<Record<string, number>> = { 8000: server.http, 8001: server.grpc, 8002: server.metrics };
  const code = readFileSync(file, "utf8").replace(
    /localhost:(800[012])/g,
    (_all, port: string) => `127.0.0.1:${ports[port]}`,
  );
  const copy = join(scratch, "client.py");
  writeFileSync(copy, code);
  const stdout = await runPython(python, [copy]);
  if (!stdout.includes("PASS: ")) throw new Error(`does not say that it passed: ${stdout}`);
  return {};
}

/** Its own client fetches an image and code from the network: the request that it makes, with noise for an image. */
async function askResnet(server: ServerProcess): Promise<object> {
  const data = Buffer.from(Float32Array.from({ length: 3 * 224 * 224 }, (_, i) => Math.sin(i)).buffer);
  const head = JSON.stringify({
    inputs: [
      { name: "INPUT", datatype: "FP32", shape: [1, 3, 224, 224], parameters: { binary_data_size: data.length } },
    ],
  });
  const reply = await fetch(`${server.baseUrl}/v2/models/resnet50/infer`, {
    method: "POST",
    headers: { "Inference-Header-Content-Length": String(head.length) },
    body: Buffer.concat([Buffer.from(head), data]),
  });
  const text = await reply.text();
  const { outputs } = JSON.parse(text) as { outputs?: readonly { shape: readonly number[] }[] };
  if (outputs?.[0]?.shape.join() !== "1,1000") throw new Error(`expected [1,1000]: ${text.slice(0, 500)}`);
  return { note: "weights that are not trained, its request without its client: both come from the network" };
}
