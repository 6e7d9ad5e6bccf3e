/** The models that the client libraries are tried with: the example `simple`, recorded models of every datatype, and small backends. */
import process from "node:process";
import type { TestContext } from "node:test";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS } from "../support/model-repository.ts";
import { clientVenv } from "../support/python-checks.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

const DATATYPES = "bf16 bool bytes fp16 fp32 fp64 int16 int32 int64 int8 uint16 uint32 uint64 uint8".split(" ");
const RECORDED = [...DATATYPES.map((name) => `id_${name}`), "mlp", "no_batch"];

const FILES: Readonly<Record<string, string>> = {
  "repeat/config.pbtxt": `
    backend: "repeat"
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] },
            { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] optional: true },
            { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] optional: true } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
  "square/config.pbtxt": `
    backend: "square"
    model_transaction_policy { decoupled: true }
    input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]`,
  "slow/config.pbtxt": `
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    parameters { key: "execute_delay_ms" value { string_value: "400" } }`,
  "slow_queue/config.pbtxt": `
    backend: "identity"
    max_batch_size: 1
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    dynamic_batching { default_queue_policy { default_timeout_microseconds: 20000000 allow_timeout_override: true } }
    parameters { key: "execute_delay_ms" value { string_value: "400" } }`,
  "accumulate/config.pbtxt": accumulator("sequence", "direct { }", ["START", "READY"]),
  "accumulate_text/config.pbtxt": accumulator(
    "dyna_sequence",
    "oldest { max_candidate_sequences: 4 }",
    ["START", "END", "READY"],
    '{ name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } ] }',
  ),
};

/** Sums over sequences: a backend, a strategy and the controls that the backend reads. */
function accumulator(backend: string, strategy: string, flags: readonly string[], more?: string): string {
  const control = (kind: string): string =>
    `{ name: "${kind}" control [ { kind: CONTROL_SEQUENCE_${kind} int32_false_true: [ 0, 1 ] } ] }`;
  return `
    backend: "${backend}"
    max_batch_size: 2
    input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    sequence_batching {
      max_sequence_idle_microseconds: 60000000
      control_input [ ${[...flags.map(control), ...(more === undefined ? [] : [more])].join(", ")} ]
      ${strategy}
    }`;
}

/** A server with these models; the test's end stops it and asserts that it ended well. */
export async function startClientServer(t: TestContext, flags: readonly string[] = []): Promise<ServerProcess> {
  const copies = [`${EXAMPLES}/simple`, ...RECORDED.map((name) => `${GOLDEN_MODELS}/${name}`)];
  const repository = await createModelRepository({ copies, files: FILES });
  t.after(() => repository[Symbol.asyncDispose]());
  const env = { ...process.env, NEREID_PYTHON: clientVenv.python };
  const server = await startServerProcess({ repositories: [repository.path], flags, env });
  t.after(() => server.kill());
  return server;
}
