/** The example's language model once for each tool format, to be loaded one at a time. */
import { readFile } from "node:fs/promises";
import { TOOL_ROWS } from "@nereid/server/chat/tools/tool-rows";
import { createModelRepository, EXAMPLES, type ModelRepository } from "../support/model-repository.ts";

const LANGUAGE_MODEL = `${EXAMPLES}/tensorrt_llm`;
const WEIGHTS = `${EXAMPLES}/../nereid-tiny/language_model`;

/** `calls_hermes` and so on; the caller disposes of it. */
export async function createFormatModels(): Promise<ModelRepository> {
  const config = await readFile(`${LANGUAGE_MODEL}/config.pbtxt`, "utf8");
  const files = TOOL_ROWS.map(({ name }) => [`${modelOf(name)}/config.pbtxt`, configFor(config, name)] as const);
  return createModelRepository({ files: Object.fromEntries(files) });
}

export function modelOf(format: string): string {
  return `calls_${format}`;
}

function configFor(config: string, format: string): string {
  const own = config
    .replace(/^name: .*$/m, `name: "${modelOf(format)}"`)
    .replace("../../nereid-tiny/language_model", WEIGHTS);
  const parameter = (key: string, value: string): string =>
    `parameters { key: "${key}" value: { string_value: "${value}" } }\n`;
  // Otherwise an answer that is asked for twice may differ by what else runs.
  return `${own}\n${parameter("tool_format", format)}${parameter("deterministic", "true")}`;
}
