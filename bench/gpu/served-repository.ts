/** The repository of the examples over an engine on GPUs: what the measurements of a whole server serve. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export interface EnginePlan {
  /** Folder with `model_repository`. */
  readonly examples: string;
  readonly modelDir: string;
  /** As instance groups have them, "" for the CPU. */
  readonly gpus: string;
  /** name=value,... */
  readonly parameters: string;
}

export type Put = (path: string, text: string) => void;

/** An empty folder and how files get there. */
export function newRepository(root: string): Put {
  rmSync(root, { recursive: true, force: true });
  return (path, text) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
}

export function putEngine(put: Put, plan: EnginePlan): void {
  put("tensorrt_llm/1/.keep", "");
  put("tensorrt_llm/config.pbtxt", engineConfig(plan));
}

/** Text in, text out, around the engine. */
export function putPipeline(put: Put, { examples, modelDir }: EnginePlan, maxBatchSize = 32): void {
  for (const name of ["ensemble", "preprocessing", "postprocessing"]) {
    const text = readFileSync(join(examples, "model_repository", name, "config.pbtxt"), "utf8");
    put(`${name}/1/.keep`, "");
    put(
      `${name}/config.pbtxt`,
      text
        .replaceAll("../../nereid-tiny/language_model", modelDir)
        .replace(/max_batch_size: \d+/, `max_batch_size: ${maxBatchSize}`),
    );
  }
}

function engineConfig({ examples, modelDir, gpus, parameters }: EnginePlan): string {
  const path = join(examples, "model_repository/tensorrt_llm/config.pbtxt");
  const all = [["gpt_model_path", modelDir], ...parameters.split(",").map((part) => part.split("="))];
  const place = gpus === "" ? "kind: KIND_CPU" : `kind: KIND_GPU, gpus: [ ${gpus} ]`;
  const own = all.filter(([name = ""]) => name !== "");
  const text = readFileSync(path, "utf8")
    .replace(/max_batch_size: \d+/, "max_batch_size: 256")
    .replace(/parameters \{\s*key: "gpt_model_path"[^}]*\}\s*\}/, "")
    .replace(/instance_group \[[^\]]*\]/, `instance_group [ { count: 1, ${place} } ]`);
  const added = own.map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }\n`);
  return text + added.join("");
}
