/** CPU time of the server for one unary call: `node --conditions=nereid-source --import tsx unary.bench.ts [bytes]`. Raw node:http2 takes 37 us. */
import { fork } from "node:child_process";
import { connect } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { FakeModelServer } from "../fake-model-server.test-support.ts";
import { createGrpcFrontend } from "../frontend.ts";
import { encode, frame, GRPC_TEST_OPTIONS, MODEL_INFER, TestLog } from "../test-peer.test-support.ts";

const NUM_CALLS = 20_000;
const IN_FLIGHT = 16;

if (process.send !== undefined) await serve();
else await drive(Number(process.argv[2] ?? 64));

async function serve(): Promise<void> {
  const server = new FakeModelServer();
  const frontend = createGrpcFrontend({ server, options: GRPC_TEST_OPTIONS, log: new TestLog() });
  const { port } = await frontend.listen();
  process.send?.({ port });
  process.on("message", () => {
    server.seen.length = 0;
    process.send?.({ cpu: process.cpuUsage() });
  });
}

async function drive(bytes: number): Promise<void> {
  const numCalls = bytes > 100_000 ? NUM_CALLS / 20 : NUM_CALLS;
  const child = fork(new URL(import.meta.url).pathname, [], { execArgv: process.execArgv });
  const next = (): Promise<{ port: number; cpu: NodeJS.CpuUsage }> =>
    new Promise((resolve) => child.once("message", resolve));
  const { port } = await next();
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 4 * 1024 * 1024 } });
  const half = Buffer.alloc(bytes / 2);
  const inputs = ["INPUT0", "INPUT1"].map((name) => ({ name, datatype: "INT32", shape: [1, bytes / 8] }));
  const request = { model_name: "echo", inputs, raw_input_contents: [half, half] };
  const body = frame(encode("inference.ModelInferRequest", request));
  const call = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const stream = session.request({ ":method": "POST", ":path": MODEL_INFER, "content-type": "application/grpc" });
      stream.on("close", resolve);
      stream.on("error", reject);
      stream.resume();
      stream.end(body);
    });
  const round = async (count: number): Promise<void> => {
    const lane = async (): Promise<void> => {
      for (let k = 0; k < count / IN_FLIGHT; k++) await call();
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  };
  await round(numCalls / 4);
  for (let k = 0; k < 3; k++) {
    child.send("mark");
    const before = (await next()).cpu;
    const startMs = performance.now();
    await round(numCalls);
    const wallMs = performance.now() - startMs;
    child.send("mark");
    const after = (await next()).cpu;
    const cpuUs = (after.user + after.system - before.user - before.system) / numCalls;
    console.log(
      `${bytes} bytes: ${cpuUs.toFixed(1)} us CPU a call, ${((numCalls / wallMs) * 1000).toFixed(0)} calls/s`,
    );
    await sleep(50);
  }
  session.close();
  child.kill();
}
