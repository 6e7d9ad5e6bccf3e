import assert from "node:assert/strict";
import process from "node:process";
import { after, before, describe, test } from "node:test";
import { pythonVenv } from "../python-venv.ts";
import { childrenOf } from "../support/child-processes.ts";
import { KeepAliveClient, type Reply } from "../support/hostile-http.ts";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";
import { assertSound, eventually, readMetric } from "../support/probe-server.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const venv = await pythonVenv(["numpy"]);
const STUB = "python";
const NUM_REQUESTS = 20;
const REQUEST = JSON.stringify({ inputs: [{ name: "X", datatype: "FP32", shape: [1, 1], data: [1.5] }] });
const CONFIG =
  'backend: "python" max_batch_size: 1 input [{ name: "X" data_type: TYPE_FP32 dims: [1] }] output [{ name: "Y" data_type: TYPE_FP32 dims: [1] }]';
const CODE = `import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.3)
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())])
            for r in requests
        ]
`;

describe("a Python model", { skip: venv.reason }, () => {
  let repository: ModelRepository;
  let server: ServerProcess;
  before(async () => {
    repository = await createModelRepository({
      copies: [`${EXAMPLES}/simple`],
      files: { "slow/config.pbtxt": CONFIG, "slow/1/model.py": CODE },
    });
    server = await startServerProcess({ repositories: [repository.path], env: { NEREID_PYTHON: venv.python } });
  });
  after(async () => {
    await server.stop();
    await repository[Symbol.asyncDispose]();
  });

  for (const signal of ["SIGSEGV", "SIGKILL"] as const) {
    test(`that dies of ${signal} under load costs the requests it had started and comes back`, async () => {
      using client = new KeepAliveClient(server.http, NUM_REQUESTS);
      const send = (): Promise<Reply> => client.send({ path: "/v2/models/slow/infer", body: REQUEST });
      const [stub = -1] = await childrenOf(server.pid, STUB);
      const replies = Array.from({ length: NUM_REQUESTS }, send);
      await Promise.race(replies);
      process.kill(stub, signal);
      const statuses: number[] = [];
      for (const { status, body } of await Promise.all(replies)) {
        assert.ok(status === 200 || body.toString().includes(signal), `${status} ${body}`);
        statuses.push(status);
      }
      const numFailed = statuses.filter((status) => status !== 200).length;
      assert.ok(numFailed >= 1 && numFailed <= 2, `${numFailed} of ${NUM_REQUESTS} failed`);
      await eventually(
        async () => (await fetch(`${server.baseUrl}/v2/models/slow/ready`)).status,
        (status) => status === 200,
      );
      assert.equal((await send()).status, 200);
      await eventually(
        () => readMetric(server, "nv_inference_pending_request_count"),
        (pending) => pending === 0,
      );
      await assertSound(server);
    });
  }
});
