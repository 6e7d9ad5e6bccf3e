/** Triton's own gRPC clients against the real server. */
import { test } from "node:test";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startClientServer } from "./client-models.ts";

const options = { skip: clientVenv.reason ?? false, timeout: 120_000 };

for (const script of ["grpc_sync.py", "grpc_stream.py", "grpc_aio.py"]) {
  test(`tritonclient over gRPC: ${script} finds what it expects`, options, async (t) => {
    const server = await startClientServer(t);
    await runChecks(t, script, server);
    await server.stop();
  });
}
