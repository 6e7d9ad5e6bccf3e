/** Triton's own clients with regions on a GPU: a driver without one stands in for it, so that every byte of the calls is real. */
import assert from "node:assert/strict";
import process from "node:process";
import { type TestContext, test } from "node:test";
import { FakeCudaDriver, hasCompiler } from "../fakes/cuda-driver.ts";
import { createModelRepository, EXAMPLES } from "../support/model-repository.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** A server of `simple` on a machine that seems to have a GPU. */
async function withServer(t: TestContext, run: (server: ServerProcess) => Promise<unknown>): Promise<void> {
  using driver = new FakeCudaDriver();
  await using repository = await createModelRepository({ copies: [`${EXAMPLES}/simple`], files: {} });
  const env = { ...process.env, NEREID_CUDA_LIBRARIES: driver.folder };
  const flags = ["--allow-client-shm=true"];
  const server = await startServerProcess({ repositories: [repository.path], flags, env });
  t.after(() => server.kill());
  await run(server);
  await server.stop();
}

test(
  "tritonclient: cuda_shared_memory.py finds what it expects",
  {
    skip: clientVenv.reason ?? (hasCompiler ? false : "needs a C compiler"),
    timeout: 600_000,
  },
  (t) => withServer(t, (server) => runChecks(t, "cuda_shared_memory.py", server, ["fake"])),
);

const HANDLE = `{"b64":"${Buffer.alloc(64, "/nereid_no_such_object\0").toString("base64")}"}`;
const NO_UNSIGNED = "attempt to access JSON non-unsigned-integer as unsigned-integer";
const NO_HANDLE = "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t";
const BODIES: readonly (readonly [body: string, status: number, error: string])[] = [
  ["", 400, "Shared memory register request has no 'raw_handle' field"],
  ['{"byte_size":8,"device_id":0}', 400, "Shared memory register request has no 'raw_handle' field"],
  ['{"raw_handle":"AAAA"}', 500, "attempt to access non-existing object member 'b64'"],
  ['{"raw_handle":{"b64":7}}', 500, "attempt to access JSON non-string as string"],
  [`{"raw_handle":${HANDLE}}`, 500, "attempt to access non-existing object member 'byte_size'"],
  [`{"raw_handle":${HANDLE},"byte_size":8}`, 500, "attempt to access non-existing object member 'device_id'"],
  [`{"raw_handle":${HANDLE},"byte_size":-8,"device_id":0}`, 500, NO_UNSIGNED],
  [`{"raw_handle":${HANDLE},"byte_size":8,"device_id":1.5}`, 500, NO_UNSIGNED],
  ['{"raw_handle":{"b64":""},"byte_size":8,"device_id":0}', 400, NO_HANDLE],
  ['{"raw_handle":{"b64":"????"},"byte_size":8,"device_id":0}', 400, NO_HANDLE],
  [
    `{"raw_handle":${HANDLE},"byte_size":8,"device_id":18446744073709551615}`,
    400,
    "failed to register shared memory region: invalid args",
  ],
  [
    `{"raw_handle":${HANDLE},"byte_size":8,"device_id":0}`,
    400,
    "failed to register shared memory region: invalid args",
  ],
  [
    `{"raw_handle":${HANDLE},"byte_size":18446744073709551615,"device_id":0}`,
    400,
    "failed to register shared memory region 'r': 18446744073709551615 bytes are more than the 4294967296 of one region",
  ],
];

test(
  "wrong bodies are refused, and nothing is registered",
  {
    skip: hasCompiler ? false : "needs a C compiler",
    timeout: 600_000,
  },
  (t) =>
    withServer(t, async ({ baseUrl }) => {
      const url = `${baseUrl}/v2/cudasharedmemory`;
      for (const [body, status, error] of BODIES) {
        const answer = await fetch(`${url}/region/r/register`, { method: "POST", body });
        assert.deepEqual([body, answer.status, await answer.json()], [body, status, { error }]);
      }
      assert.deepEqual(await (await fetch(`${url}/status`)).json(), []);
    }),
);
