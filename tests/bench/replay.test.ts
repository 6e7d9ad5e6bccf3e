/** `nereid record` and `nereid replay` as users call them: traffic over HTTP and gRPC, repeated on a changed model. */
import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { packBytesElements } from "@nereid/wire";
import { encodeInfer, type InferSpec } from "../../perf/src/input/infer-encoding.ts";
import { GrpcClient } from "../../perf/src/load/grpc-client.ts";
import { eventually } from "../support/probe-server.ts";
import { freePort, type ServerProcess, startServerProcess } from "../support/server-process.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "nereid-replay-"));
const IO = (names: readonly [string, string]): string =>
  `[ { name: "${names[0]}" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "${names[1]}" data_type: TYPE_STRING dims: [ 1 ] } ]`;
const CONFIG = `backend: "typescript" input ${IO(["x", "t"])} output ${IO(["y", "u"])}\n`;
const modelText = (factor: number, word: string): string =>
  `export const execute = ({ inputs: { x, t } }) => ({ y: x.data.map((value) => value * ${factor}), u: [\`${word} \${t.strings[0]}\`] });\n`;
const SPEC: InferSpec = {
  model: "scale",
  version: "",
  inputs: [
    { name: "x", datatype: "FP32", shape: [2], data: new Uint8Array(new Float32Array([1, 2]).buffer) },
    { name: "t", datatype: "BYTES", shape: [1], data: packBytesElements(["card 1234"]) },
  ],
  outputs: [{ name: "y" }, { name: "u" }],
  parameters: {},
};
const JSON_REQUEST = JSON.stringify({
  inputs: [
    { name: "x", datatype: "FP32", shape: [2], data: [1, 2] },
    { name: "t", datatype: "BYTES", shape: [1], data: ["card 1234"] },
  ],
});
let server: ServerProcess;

before(async () => {
  mkdirSync(join(folder, "models/scale/1"), { recursive: true });
  writeFileSync(join(folder, "models/scale/config.pbtxt"), CONFIG);
  writeFileSync(join(folder, "models/scale/1/model.ts"), modelText(2, "hello"));
  const flags = ["--model-control-mode=explicit", "--load-model=scale"];
  server = await startServerProcess({ repositories: [join(folder, "models")], flags });
});

after(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Recording {
  readonly child: ChildProcess;
  readonly http: number;
  readonly grpc: number;
  output: string;
}

async function startRecord(path: string, ...flags: string[]): Promise<Recording> {
  const [http, grpc] = [await freePort(), await freePort()];
  const listen = ["--listen", `127.0.0.1:${http}`, "--grpc-listen", `127.0.0.1:${grpc}`];
  const argv = [NEREID, "record", "-o", path, ...listen, ...flags];
  const recording: Recording = { child: spawn(process.execPath, argv), http, grpc, output: "" };
  for (const stream of [recording.child.stdout, recording.child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      recording.output += text;
    });
  }
  const last = flags.includes("--grpc-url") ? "gRPC: 127.0.0.1" : "HTTP: 127.0.0.1";
  await eventually(
    async () => recording.output,
    (text) => text.includes(last),
  );
  return recording;
}

async function endRecord({ child }: Recording): Promise<void> {
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
}

function replay(...flags: string[]): Promise<{ readonly code: number; readonly out: string }> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [NEREID, "replay", "-q", ...flags], { timeout: 240_000 }, (error, out, errors) => {
      const code = typeof error?.code === "number" ? error.code : error === null ? 0 : -1;
      if (code < 0) reject(new Error(out + errors));
      else resolve({ code, out });
    });
  });
}

function call(client: GrpcClient, path: string, message: Uint8Array): Promise<string | undefined> {
  return new Promise((resolve) => {
    client.call(`/inference.GRPCInferenceService/${path}`, message, { part: () => undefined, end: resolve });
  });
}

async function sendTraffic({ http, grpc }: Recording): Promise<void> {
  const infer = `http://127.0.0.1:${http}/v2/models/scale/infer`;
  const headers = { authorization: "Bearer secret" };
  const answer = await fetch(infer, { method: "POST", body: JSON_REQUEST, headers });
  assert.equal(answer.status, 200);
  assert.match(await answer.text(), /hello card 1234/);
  const wrong = await fetch(infer, { method: "POST", body: "{}" });
  assert.equal(wrong.status, 500);
  await wrong.text();
  const config = await fetch(`http://127.0.0.1:${http}/v2/models/scale/config`);
  assert.equal(((await config.json()) as { name: string }).name, "scale");
  const client = new GrpcClient({ host: "127.0.0.1", port: grpc, tls: undefined }, []);
  try {
    const message = encodeInfer(SPEC, { kind: "grpc" });
    assert.equal(await call(client, "ModelInfer", message), undefined);
    assert.equal(await call(client, "ModelStreamInfer", message), undefined);
    assert.match(
      (await call(client, "ModelInfer", encodeInfer({ ...SPEC, model: "none" }, { kind: "grpc" }))) ?? "",
      /5: .*none/,
    );
  } finally {
    client.close();
  }
}

test("traffic over HTTP and gRPC is recorded without its secrets, and repeated on a changed model", async () => {
  const path = join(folder, "traffic.jsonl");
  const urls = ["-u", `127.0.0.1:${server.http}`, "--grpc-url", `127.0.0.1:${server.grpc}`];
  const recording = await startRecord(path, ...urls, "--redact-pattern", "\\d{4}");
  try {
    await sendTraffic(recording);
  } finally {
    await endRecord(recording);
  }
  assert.match(recording.output, /5 of 5 requests recorded/);
  const files = [path, path.replace(".jsonl", ".bin")].map((file) => readFileSync(file, "latin1")).join("");
  assert.doesNotMatch(files, /secret|1234/);

  const same = await replay(path, ...urls, "--speed", "max");
  assert.match(same.out, /5 same, 0 different, 0 failed, 0 skipped/);
  assert.equal(same.code, 0);
  const unreached = await replay(path, ...urls.slice(0, 2));
  assert.match(unreached.out, /skipped: request 2 .*: no server for grpc\n/);

  writeFileSync(join(folder, "models/scale/1/model.ts"), modelText(2.001, "hullo"));
  await fetch(`${server.baseUrl}/v2/repository/models/scale/load`, { method: "POST" });
  const report = join(folder, "report.json");
  const changed = await replay(
    path,
    ...urls,
    "--speed",
    "max",
    "-c",
    "2",
    "--report-json",
    report,
    "--html",
    join(folder, "r.html"),
  );
  assert.equal(changed.code, 1);
  assert.match(changed.out, /outputs\.y\[0\] \(2 of 2 differ\): expected 2, got 2\.00/);
  assert.match(changed.out, /outputs\.u\[0\], character 1: expected "hello card xxxx", got "hullo card xxxx"/);
  const { counts } = JSON.parse(readFileSync(report, "utf8")) as { readonly counts: Readonly<Record<string, number>> };
  assert.deepEqual(counts, { same: 2, different: 3, failed: 0, skipped: 0 });
  assert.match(readFileSync(join(folder, "r.html"), "utf8"), /hullo card/);
  const tolerant = await replay(path, ...urls, "--speed", "max", "--rtol", "0.01");
  assert.doesNotMatch(tolerant.out, /outputs\.y/);
});

test("a full recording and a server that is gone break no client", async () => {
  const upstream = createServer((_, response) => response.end("{}")).listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const address = upstream.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const path = join(folder, "full.jsonl");
  const recording = await startRecord(path, "-u", `127.0.0.1:${port}`, "--max-requests", "1");
  try {
    const ask = (): Promise<Response> =>
      fetch(`http://127.0.0.1:${recording.http}/v1/completions`, { method: "POST", body: "{}" });
    for (let k = 0; k < 3; k++) assert.equal((await ask()).status, 200);
    upstream.closeAllConnections();
    upstream.close();
    await once(upstream, "close");
    const gone = await ask();
    assert.equal(gone.status, 502);
    assert.match(await gone.text(), /the server behind nereid record does not answer/);
  } finally {
    await endRecord(recording);
  }
  assert.match(recording.output, /nothing more is recorded, since a limit is reached/);
  assert.match(recording.output, /1 of 4 requests recorded, 4 sampled; dropped: 3 limit reached/);
});
