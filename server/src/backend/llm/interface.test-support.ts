/** For the table of the engine model's inputs and outputs: its template filled in, and requests to it with all that comes back. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseModelConfigText } from "../../config/model/model-config.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendResponse, ModelInstance } from "../backend.ts";
import { call, EXAMPLES } from "./llm.test-support.ts";

const TEMPLATE = fileURLToPath(
  new URL("../../../../offline/templates/inflight_batcher_llm/tensorrt_llm/config.pbtxt", import.meta.url),
);
export const VOCABULARY = 6144;
export const HIDDEN = 384;
export const NUM_TOKENS = 8;
const [golden] = JSON.parse(readFileSync(`${EXAMPLES}nereid-tiny/golden_text.json`, "utf8")) as {
  input_ids: number[];
  output_ids: number[];
}[];
export const PROMPT: readonly number[] = golden?.input_ids ?? [];
export const GREEDY: readonly number[] = golden?.output_ids.slice(0, NUM_TOKENS) ?? [];

/** As people fill it in, with room for beams; all else stays as it is shipped. */
export function filled(): string {
  const values: Readonly<Record<string, string>> = {
    triton_max_batch_size: "4",
    decoupled_mode: "true",
    engine_dir: `${EXAMPLES}nereid-tiny/language_model`,
    max_queue_delay_microseconds: "0",
    max_queue_size: "0",
    max_beam_width: "4",
    exclude_input_in_output: "true",
  };
  return readFileSync(TEMPLATE, "utf8").replace(/\$\{(\w+)\}/g, (written, name: string) => values[name] ?? written);
}

export const CONFIG: ModelConfig = parseModelConfigText(filled(), "config.pbtxt");
export const OUTPUTS: readonly string[] = CONFIG.output.map(({ name }) => name);

export interface Answer {
  readonly responses: readonly BackendResponse[];
  /** Values of the first row and beam, concatenated over all responses. */
  readonly ids: readonly number[];
  numbers(output: string): number[];
  shape(output: string): readonly number[];
}

export async function ask(instance: ModelInstance, inputs: readonly Tensor[]): Promise<Answer | string> {
  const { responses, ended } = call(instance, inputs, { outputNames: OUTPUTS });
  const error = await ended;
  if (error !== undefined) return error.message;
  const find = (output: string): Tensor =>
    responses.at(-1)?.outputs.find(({ name }) => name === output) ?? assert.fail(`no output ${output}`);
  const ids = responses.flatMap(({ outputs }) => {
    const tensor = outputs.find(({ name }) => name === "output_ids");
    const width = tensor?.shape.at(-1) ?? 0;
    return tensor === undefined ? [] : [...new Int32Array(tensor.data.slice().buffer)].slice(0, width);
  });
  return { responses, ids, numbers: (output) => numbersOf(find(output)), shape: (output) => find(output).shape };
}

export function numbersOf({ datatype, data }: Tensor): number[] {
  const { buffer } = data.slice();
  if (datatype === "FP32") return [...new Float32Array(buffer)];
  if (datatype === "INT64") return [...new BigInt64Array(buffer)].map(Number);
  return datatype === "UINT8" ? [...data] : [...new Int32Array(buffer)];
}
