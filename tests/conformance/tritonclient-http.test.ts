/** Triton's own HTTP clients against the real server. */
import { test } from "node:test";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startClientServer } from "./client-models.ts";

const options = { skip: clientVenv.reason ?? false, timeout: 120_000 };

for (const script of ["http_sync.py", "http_aio.py"]) {
  test(`tritonclient over HTTP: ${script} finds what it expects`, options, async (t) => {
    const server = await startClientServer(t);
    await runChecks(t, script, server);
    await server.stop();
  });
}
