/** The repository of a long day: a model of each backend, in a folder that outlives the part that made it. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SHAPE_MODELS } from "../../support/grpc-shapes.ts";
import { LANGUAGE_MODEL } from "../../support/llm-pipeline.ts";
import { EXAMPLES } from "../../support/model-repository.ts";

const PYTHON_MODELS = fileURLToPath(new URL("../../python/repository", import.meta.url));
const COPIES: readonly string[] = [
  ...["simple", "text_statistics", "preprocessing", "tensorrt_llm", "postprocessing", "ensemble"].map((name) =>
    join(EXAMPLES, name),
  ),
  ...["add_sub", "running_sum"].map((name) => join(PYTHON_MODELS, name)),
];
const CACHED = `
  backend: "identity"
  max_batch_size: 8
  input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
  output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
  dynamic_batching { max_queue_delay_microseconds: 500 }
  response_cache { enable: true }`;
/** A model in TypeScript whose thread ends when it is told to. */
const MORTAL = `
  backend: "typescript"
  input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
  output [ { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] } ]`;
const MORTAL_CODE = `
export const execute = ({ inputs }) => {
  if (inputs.X.data[0] === -1) process.exit(1);
  return { Y: 2 * inputs.X.data[0] };
};`;

export function writeModels(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  for (const from of COPIES) cpSync(from, join(folder, from.split("/").at(-1) ?? ""), { recursive: true });
  cpSync(join(EXAMPLES, "simple"), join(folder, "churn"), { recursive: true });
  change(join(folder, "churn/config.pbtxt"), (text) => text.replace('name: "simple"', 'name: "churn"'));
  for (const name of ["preprocessing", "tensorrt_llm", "postprocessing"])
    change(join(folder, name, "config.pbtxt"), (text) =>
      text.replace("../../nereid-tiny/language_model", LANGUAGE_MODEL),
    );
  const texts = {
    ...SHAPE_MODELS,
    "cached/config.pbtxt": CACHED,
    "mortal/config.pbtxt": MORTAL,
    "mortal/1/model.ts": MORTAL_CODE,
  };
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(join(folder, dirname(name), "1"), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

function change(file: string, edit: (text: string) => string): void {
  writeFileSync(file, edit(readFileSync(file, "utf8")));
}
