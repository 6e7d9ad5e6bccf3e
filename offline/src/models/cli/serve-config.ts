/** The file of `nereid serve --config`: arguments of `LLM()`, as `trtllm-serve` reads them. */
import { dirname, resolve } from "node:path";
import { readArguments } from "@nereid/server/backend/text-llm/engine-folder";
import { llmApiArguments } from "@nereid/server/backend/text-llm/llmapi-arguments";
import { ServerError } from "@nereid/server/core/server-error";
import { findGpus } from "@nereid/server/device/cuda/find-gpus";
import { ToolError } from "@nereid/server/files/tool-error";

export interface ServeConfig {
  /** The model's name; undefined: the file names none. */
  readonly model: string | undefined;
  readonly weightType: string | undefined;
  /** Parameters of the engine's configuration. */
  readonly parameters: Readonly<Record<string, string>>;
  /** One line each, for people. */
  readonly notes: readonly string[];
}

const NOTHING: ServeConfig = { model: undefined, weightType: undefined, parameters: {}, notes: [] };

/** @throws ToolError for a file that cannot be read */
export async function readServeConfig(path: string | undefined): Promise<ServeConfig> {
  if (path === undefined) return NOTHING;
  const folder = dirname(resolve(path));
  const values = await readArguments(path, "yaml").catch((cause: unknown) => {
    throw new ToolError(ServerError.from(cause).message, { cause });
  });
  const found = llmApiArguments(values, { hasGpus: findGpus().gpus.length > 0, folder, source: path });
  const { weight_type: weightType, ...parameters } = found.parameters;
  const { maxSequenceLength, maxPromptLength, tokenizer, revision } = found;
  const ignored = Object.entries({ max_input_len: maxPromptLength, tokenizer, revision })
    .filter(([, value]) => value !== undefined)
    .map(([name]) => name);
  return {
    model: found.model === "" ? undefined : found.model,
    weightType,
    parameters: {
      ...parameters,
      ...(maxSequenceLength === undefined ? {} : { max_model_len: String(maxSequenceLength) }),
    },
    notes: [...found.notes, ...(ignored.length === 0 ? [] : [`${path}: not read here: ${ignored.join(", ")}`])],
  };
}
