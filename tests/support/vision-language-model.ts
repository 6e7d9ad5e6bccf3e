/**
 * A vision-language model from its Hugging Face folder: vision encoder, prompt, language model and the ensemble of them on a built
 * server, and what it answers. Knows no architecture: callers say how their models differ.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createModelRepository, type ModelRepository } from "./model-repository.ts";
import type { ServerProcess } from "./server-process.ts";
import { runNode } from "./vision-server.ts";

const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const IMAGES = new URL("../vision/images/", import.meta.url);

export interface Wire {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly (number | string | boolean)[];
}

/** A tensor as the recordings have it. */
export interface Numbers {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

/** One input or output of a configuration. */
export const io = (name: string, type: string, dims: string, more = ""): string =>
  `{ name: "${name}" data_type: TYPE_${type} dims: [ ${dims} ] ${more} }`;

export const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }\n`;

/** A step of an ensemble; maps as "input of the model=name in the ensemble". */
export function step(model: string, inputs: readonly string[], outputs: readonly string[]): string {
  const maps = (kind: string, pairs: readonly string[]): string =>
    pairs.map((pair) => `${kind}_map { key: "${pair.split("=")[0]}" value: "${pair.split("=")[1]}" }`).join(" ");
  return `{ model_name: "${model}" model_version: -1 ${maps("input", inputs)} ${maps("output", outputs)} }`;
}

/** `folder` is the model's; its encoder is exported into the served model `encoder`. The caller disposes of it. */
export async function createVisionRepository(
  folder: string,
  files: Readonly<Record<string, string>>,
  encoder: string = "vision_encoder",
): Promise<ModelRepository> {
  const repository = await createModelRepository({ files });
  await exportEncoder(folder, repository, encoder);
  return repository;
}

/** The encoder of a folder as the file of a served model. */
export async function exportEncoder(folder: string, repository: ModelRepository, encoder: string): Promise<void> {
  const output = join(repository.path, encoder, "1");
  await runNode([NEREID, "onnx", "export", "--quiet", "--model", folder, "--output", output]);
}

/** Outputs by name. */
export async function infer(
  { baseUrl }: Pick<ServerProcess, "baseUrl">,
  model: string,
  inputs: readonly Wire[],
): Promise<ReadonlyMap<string, Wire>> {
  const reply = await fetch(`${baseUrl}/v2/models/${model}/infer`, {
    method: "POST",
    body: JSON.stringify({ inputs }),
  });
  const { outputs = [], error } = (await reply.json()) as { outputs?: readonly Wire[]; error?: string };
  assert.equal(error, undefined);
  return new Map(outputs.map((output) => [output.name, output]));
}

/** Files of tests/vision/images as the elements of a BYTES tensor. */
export async function imageInput(name: string, files: readonly string[]): Promise<Wire> {
  const data = await Promise.all(files.map(async (file) => (await readFile(new URL(file, IMAGES))).toString("base64")));
  return { name, datatype: "BYTES", shape: [files.length], data };
}

/** Relative to the largest number expected. */
export function assertClose(got: Wire | undefined, expected: Numbers, tolerance: number): void {
  assert.deepEqual(got?.shape, expected.shape);
  const largest = Math.max(...expected.data.map(Math.abs));
  const most = expected.data.reduce((max, value, i) => Math.max(max, Math.abs(value - Number(got?.data[i]))), 0);
  assert.ok(most <= tolerance * largest, `${most} of ${largest}`);
}
