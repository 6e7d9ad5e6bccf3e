/** The vision repository of the examples beside the one it builds on, with a store of the test's own, on a built server. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type ServerProcess, startServerProcess } from "./server-process.ts";

const run = promisify(execFile);
export const EXAMPLE_FOLDER: string = fileURLToPath(new URL("../../examples/", import.meta.url));
const NEREID = fileURLToPath(new URL("../../server/bin/nereid.cjs", import.meta.url));
const COMMAND_TIMEOUT_MS = 240_000;

export interface VisionRepository extends Disposable {
  /** A folder of the test's own beside the repository. */
  readonly folder: string;
  readonly repositories: readonly string[];
}

/** `store` takes the place of the one in the configuration. The caller disposes of it. */
export function createVisionRepository(store: string): VisionRepository {
  const folder = mkdtempSync(join(tmpdir(), "nereid-vision-"));
  const repository = join(folder, "vision_repository");
  cpSync(join(EXAMPLE_FOLDER, "vision_repository"), repository, { recursive: true });
  // Paths in configurations count from the models' folders.
  symlinkSync(join(EXAMPLE_FOLDER, "nereid-tiny"), join(folder, "nereid-tiny"));
  const path = join(repository, "caption_search", "config.pbtxt");
  writeFileSync(path, readFileSync(path, "utf8").replace(/pglite:[^"]*/, store));
  return {
    folder,
    repositories: [join(EXAMPLE_FOLDER, "model_repository"), repository],
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export function startVisionServer(
  { repositories }: VisionRepository,
  flags: readonly string[] = [],
): Promise<ServerProcess> {
  return startServerProcess({ repositories, flags });
}

/** Runs a script or `nereid` to its end; what it wrote. @throws Error with what it wrote when it fails */
export async function runNode(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
  const options = { timeout: COMMAND_TIMEOUT_MS, env: { ...process.env, ...env } };
  const { stdout } = await run(process.execPath, [...args], options);
  return stdout;
}

export const makeCaptions = (output: string, count: number): Promise<string> =>
  runNode([join(EXAMPLE_FOLDER, "scenes/make-captions.mjs"), "--output", output, "--count", String(count)]);

export const renderScenes = (output: string, count: number): Promise<string> =>
  runNode([join(EXAMPLE_FOLDER, "scenes/render-scenes.mjs"), "--output", output, "--count", String(count)]);

/** `nereid index` with the caption encoder; the JSON of its last line. */
export async function indexCaptions(
  { repositories }: VisionRepository,
  input: string,
  store: string,
  more: readonly string[] = [],
): Promise<Readonly<Record<string, unknown>>> {
  const folders = repositories.flatMap((folder) => ["--model_repository", folder]);
  const args = ["index", "--json", "--model", "caption_encoder", ...folders, "--input", input, "--store", store];
  const text = await runNode([NEREID, ...args, "--collection", "captions", "--text_field", "sentence", ...more]);
  return JSON.parse(text.trim().split("\n").at(-1) ?? "{}");
}

export interface Scene {
  readonly file: string;
  readonly text: string;
}

/** The scenes that `renderScenes` drew. */
export function readScenes(folder: string): Scene[] {
  const lines = readFileSync(join(folder, "captions.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Scene);
}

export async function generate(
  { baseUrl }: Pick<ServerProcess, "baseUrl">,
  model: string,
  body: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, unknown>>> {
  const reply = await fetch(`${baseUrl}/v2/models/${model}/generate`, { method: "POST", body: JSON.stringify(body) });
  const answer = (await reply.json()) as Readonly<Record<string, unknown>>;
  if (reply.ok) return answer;
  throw new Error(`${reply.status}: ${String(answer.error)}`);
}

/** Works on items side by side, `width` at a time, in order of the results. */
export async function mapSome<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) {
      const item = items[i];
      if (item !== undefined) results[i] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return results;
}
