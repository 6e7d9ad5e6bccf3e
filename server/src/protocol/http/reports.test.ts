import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { InferRequest } from "../../core/infer-request.ts";
import type { ModelServer } from "../../core/model-server.ts";
import { ResponseStream } from "../../core/response-stream.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import type { LoadReports } from "../load-report-text.ts";
import { createHttpFrontend, type HttpFrontend } from "./frontend.ts";

const SILENT: Logger = { info: ignore, warn: ignore, error: ignore, verbose: ignore, table: ignore };

function ignore(): undefined {
  return undefined;
}

/** Answers nothing with nothing, but the model "refuses". */
function infer(request: InferRequest): ResponseStream {
  if (request.modelName === "refuses") throw new ServerError("invalid_argument", "refused");
  request.trace?.mark("QUEUE_START", 5);
  request.trace?.mark("COMPUTE_START", 6);
  const stream = new ResponseStream();
  const head = { modelName: request.modelName, modelVersion: "1", id: "", parameters: new Map() };
  stream.push({ ...head, outputs: [], final: true, empty: false });
  return stream;
}

const SERVER = {
  state: "running",
  tracing: { isOn: false },
  model: (name: string) => ({
    name,
    version: "1",
    config: { name, max_batch_size: 0 },
    inputs: new Map(),
    outputs: new Map(),
    decoupled: false,
    infer,
  }),
} as unknown as ModelServer;

const counted: boolean[] = [];
const LOAD: LoadReports = {
  count: (isError) => void counted.push(isError),
  report: () => ({
    cpuUtilization: 0.5,
    memoryUtilization: 0.25,
    applicationUtilization: undefined,
    requestsPerSecond: 2,
    errorsPerSecond: 0,
    named: new Map(),
  }),
};

let frontend: HttpFrontend;
let port = 0;

before(async () => {
  const options = {
    address: "127.0.0.1",
    port: 0,
    maxInputBytes: 1024,
    forwardPattern: undefined,
    restricted: [],
  };
  frontend = createHttpFrontend({ server: SERVER, options, log: SILENT, load: LOAD });
  ({ port } = await frontend.listen());
});

after(() => frontend.close(0));

async function ask(path: string, body: string, headers: Record<string, string>): Promise<Response> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method: "POST", body, headers });
  await response.arrayBuffer();
  return response;
}

for (const [path, body, timing] of [
  ["/v2/models/m/infer", '{"inputs":[]}', /^recv;dur=\d+\.\d{3}, queue;dur=1\.000, total;dur=\d+\.\d{3}$/],
  ["/v2/models/m/generate", "{}", /^recv;dur=\d+\.\d{3}, queue;dur=1\.000, total;dur=\d+\.\d{3}$/],
  ["/v2/models/m/generate_stream", "{}", /^recv;dur=\d+\.\d{3}, queue;dur=1\.000, total;dur=\d+\.\d{3}$/],
  ["/v2/models/refuses/infer", '{"inputs":[]}', /^recv;dur=\d+\.\d{3}, total;dur=\d+\.\d{3}$/],
] as const) {
  test(`the answer of ${path} tells its times and the load when asked`, async () => {
    const response = await ask(path, body, { "x-server-timing": "1", "endpoint-load-metrics-format": "text" });
    assert.match(response.headers.get("server-timing") ?? "", timing);
    assert.equal(
      response.headers.get("endpoint-load-metrics"),
      "TEXT cpu_utilization=0.5, mem_utilization=0.25, rps_fractional=2, eps=0",
    );
    assert.equal(counted.at(-1), !response.ok);
  });
}

test("an answer tells neither times nor load when nobody asks, or for a form that is none", async () => {
  for (const headers of [{}, { "endpoint-load-metrics-format": "xml" }]) {
    const answer = await ask("/v2/models/m/infer", '{"inputs":[]}', headers);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.has("server-timing"), false);
    assert.equal(answer.headers.has("endpoint-load-metrics"), false);
  }
});
