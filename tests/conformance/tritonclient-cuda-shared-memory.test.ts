/** Triton's own clients with regions on a GPU: a driver without one stands in for it, so that every byte of the calls is real. */
import process from "node:process";
import { test } from "node:test";
import { FakeCudaDriver, hasCompiler } from "../fakes/cuda-driver.ts";
import { createModelRepository, EXAMPLES } from "../support/model-repository.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startServerProcess } from "../support/server-process.ts";

test("tritonclient: cuda_shared_memory.py finds what it expects", {
  skip: clientVenv.reason ?? (hasCompiler ? false : "needs a C compiler"),
  timeout: 120_000,
}, async (t) => {
  using driver = new FakeCudaDriver();
  await using repository = await createModelRepository({ copies: [`${EXAMPLES}/simple`], files: {} });
  const env = { ...process.env, NEREID_CUDA_LIBRARIES: driver.folder };
  const flags = ["--allow-client-shm=true"];
  const server = await startServerProcess({ repositories: [repository.path], flags, env });
  t.after(() => server.kill());
  await runChecks(t, "cuda_shared_memory.py", server, ["fake"]);
  await server.stop();
});
