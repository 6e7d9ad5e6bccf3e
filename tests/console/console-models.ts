/** A repository for tests of the console: models that work, one that is broken, one that stalls, one that streams. */
import { createModelRepository, type ModelRepository } from "../support/model-repository.ts";

const STALL_MS = 300;

const NUMBER = (name: string, more = ""): string => `
name: "${name}"
backend: "typescript"
max_batch_size: 8
${more}
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] } ]
`;

const COPY = `
export function execute({ inputs }) {
  return { Y: inputs.X };
}
`;

const STALLING = `
export async function execute({ inputs }) {
  await new Promise((resolve) => setTimeout(resolve, ${STALL_MS}));
  return { Y: inputs.X };
}
`;

const ENSEMBLE = `
name: "pipeline"
platform: "ensemble"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] } ]
ensemble_scheduling {
  step [
    { model_name: "prepare" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "prepared" } },
    { model_name: "stalls" model_version: -1 input_map { key: "X" value: "prepared" } output_map { key: "Y" value: "Y" } }
  ]
}
`;

const WORDS = `
name: "words"
backend: "typescript"
max_batch_size: 0
model_transaction_policy { decoupled: true }
input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
`;

/** As many words as the text says, or twelve; the next when the one before is out. */
const STREAM = `
export async function* execute({ inputs, signal }) {
  const count = Number(/\\d+/.exec(inputs.text_input.strings[0])?.[0] ?? 12);
  for (let i = 1; i <= count && !signal.aborted; i++) {
    await new Promise((resolve) => setTimeout(resolve, 40));
    yield { text_output: ["word" + i + " "] };
  }
}
`;

/** The field of the second line does not exist: its name has a letter too many. */
const BROKEN = `name: "broken"
max_batch_sizes: 8
backend: "typescript"
`;

/** The caller disposes of it. */
export function createConsoleModels(): Promise<ModelRepository> {
  return createModelRepository({
    files: {
      "prepare/config.pbtxt": NUMBER("prepare", "dynamic_batching { max_queue_delay_microseconds: 2000 }"),
      "prepare/1/model.ts": COPY,
      "stalls/config.pbtxt": NUMBER("stalls"),
      "stalls/1/model.ts": STALLING,
      "pipeline/config.pbtxt": ENSEMBLE,
      "words/config.pbtxt": WORDS,
      "words/1/model.ts": STREAM,
      "broken/config.pbtxt": BROKEN,
      "broken/1/model.ts": COPY,
    },
  });
}

/** Flags of a server whose models the console may load and unload. */
export const CONSOLE_FLAGS: readonly string[] = [
  "--model-control-mode=explicit",
  "--load-model=pipeline",
  "--load-model=words",
  "--exit-on-error=false",
];
