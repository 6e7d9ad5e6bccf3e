/** Triton's own clients and their shared memory module against the real server. */
import process from "node:process";
import { test } from "node:test";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS } from "../support/model-repository.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startServerProcess } from "../support/server-process.ts";

const FILES: Readonly<Record<string, string>> = {
  "echo/config.pbtxt": identity("[ -1 ]"),
  "echo_two/config.pbtxt": identity("[ 2 ]"),
  "remembers/config.pbtxt": `${identity("[ -1 ]")} response_cache { enable: true }`,
  "slow/config.pbtxt": `${identity("[ 1 ]")} parameters { key: "execute_delay_ms" value { string_value: "500" } }`,
  "repeat/config.pbtxt": `
    backend: "repeat"
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
};

function identity(dims: string): string {
  return `
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: ${dims} } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: ${dims} } ]`;
}

test("tritonclient: shared_memory.py finds what it expects", {
  skip: clientVenv.reason ?? false,
  timeout: 600_000,
}, async (t) => {
  const copies = [`${EXAMPLES}/simple`, `${GOLDEN_MODELS}/id_bytes`, `${GOLDEN_MODELS}/py_echo`];
  await using repository = await createModelRepository({ copies, files: FILES });
  const flags = ["--allow-client-shm=true", "--cache-config=local,size=1048576"];
  const env = { ...process.env, NEREID_PYTHON: clientVenv.python };
  const server = await startServerProcess({ repositories: [repository.path], flags, env });
  t.after(() => server.kill());
  await runChecks(t, "shared_memory.py", server);
  await server.stop();
});
