/** The server and the models that all tests of the client use. */

import { createModelRepository, EXAMPLES, GOLDEN_MODELS } from "../support/model-repository.ts";
import type { ServerProcess } from "../support/server-process.ts";
import { startServerProcess } from "../support/server-process.ts";

export const DATATYPES: readonly string[] =
  "bf16 bool bytes fp16 fp32 fp64 int16 int32 int64 int8 uint16 uint32 uint64 uint8".split(" ");

const FILES: Readonly<Record<string, string>> = {
  "repeat/config.pbtxt": `
    backend: "repeat"
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] },
            { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] optional: true },
            { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] optional: true } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
  "slow/config.pbtxt": `
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
    parameters { key: "execute_delay_ms" value { string_value: "60000" } }`,
  "accumulate/config.pbtxt": `
    backend: "sequence"
    max_batch_size: 2
    input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    sequence_batching {
      max_sequence_idle_microseconds: 60000000
      control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
                      { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] } ]
      direct { }
    }`,
};

export interface ClientServer extends AsyncDisposable {
  readonly server: ServerProcess;
  /** Its model repository. */
  readonly path: string;
}

/** Explicit control, shared memory allowed, pages of any origin welcome. `text_encoder` is there and not loaded. */
export async function startClientServer(flags: readonly string[] = []): Promise<ClientServer> {
  const copies = ["simple", "text_encoder"].map((name) => `${EXAMPLES}/${name}`);
  const recorded = DATATYPES.map((name) => `${GOLDEN_MODELS}/id_${name}`);
  const repository = await createModelRepository({ copies: [...copies, ...recorded], files: FILES });
  const loaded = ["simple", ...DATATYPES.map((name) => `id_${name}`), "repeat", "slow", "accumulate"];
  const loads = loaded.map((name) => `--load-model=${name}`);
  const server = await startServerProcess({
    repositories: [repository.path],
    flags: ["--model-control-mode=explicit", "--allow-client-shm=true", "--cors-origins=*", ...loads, ...flags],
  });
  return {
    server,
    path: repository.path,
    async [Symbol.asyncDispose]() {
      await server.kill();
      await repository[Symbol.asyncDispose]();
    },
  };
}
