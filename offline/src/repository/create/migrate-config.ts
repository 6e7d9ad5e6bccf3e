/**
 * Changes the `config.pbtxt` of one model of an `inflight_batcher_llm` repository so that it runs here: the engine's and
 * the tokenizer's folder, and the backend of the Python models that this server replaces. All else stays as it is. Pure.
 * Source: tensorrtllm_backend, `all_models/inflight_batcher_llm`, v0.5.0 to v0.19.0.
 */
import { fillRepositoryFile } from "./repository-values.ts";

/** Part of a pipeline that a model is; undefined: none that changes. */
type Role = "engine" | "preprocessing" | "postprocessing" | "bls" | undefined;

/** Backends that take the place of `model.py`. The C++ engine has been an option of Python's since v0.9. */
const BACKENDS: Readonly<Record<Exclude<Role, undefined>, string>> = {
  engine: "tensorrtllm",
  preprocessing: "tokenizer",
  postprocessing: "tokenizer",
  bls: "bls",
};

/** Values of placeholders; `engine_dir` and `tokenizer_dir` also go where a repository was filled before. */
export function migratedConfig(text: string, values: ReadonlyMap<string, string>): string {
  const filled = fillRepositoryFile(text, values);
  const role = roleOf(filled);
  const placed = [
    ["gpt_model_path", values.get("engine_dir")],
    ["tokenizer_dir", values.get("tokenizer_dir")],
  ] as const;
  const config = placed.reduce(
    (result, [key, value]) => (value === undefined ? result : withParameter(result, key, value)),
    filled,
  );
  return role === undefined ? config : config.replace(/^backend\s*:\s*"[^"]*"/m, `backend: "${BACKENDS[role]}"`);
}

function roleOf(text: string): Role {
  if (/^platform\s*:\s*"ensemble"/m.test(text)) return undefined;
  if (/name\s*:\s*"QUERY"/.test(text)) return "preprocessing";
  if (/name\s*:\s*"TOKENS_BATCH"/.test(text)) return "postprocessing";
  if (/key\s*:\s*"accumulate_tokens"/.test(text)) return "bls";
  // Since v0.12 preprocessing has this parameter too.
  return /key\s*:\s*"gpt_model_path"/.test(text) ? "engine" : undefined;
}

/** Replaces the text of a parameter that is there. */
function withParameter(text: string, key: string, value: string): string {
  const pattern = new RegExp(
    `(key\\s*:\\s*"${key}"[\\s,;]*value\\s*:?\\s*\\{\\s*string_value\\s*:\\s*)"(?:[^"\\\\]|\\\\.)*"`,
    "g",
  );
  return text.replace(pattern, (_, start: string) => `${start}${JSON.stringify(value)}`);
}
