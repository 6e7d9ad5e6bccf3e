/**
 * Reads `config.json` and `generation_config.json` of a Hugging Face model folder. Source: transformers documentation,
 * "Configuration". It checks size and JSON syntax; `models/` interprets the fields.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";

export interface HfConfigFiles {
  readonly config: unknown;
  /** Undefined when the file does not exist. */
  readonly generation: unknown;
  /** The fields were made of another format's, under the names of several classes. */
  readonly isConverted?: boolean;
  /** File names for error messages. */
  readonly at: { readonly config: string; readonly generation: string };
}

/** A config has some forty fields; larger files are something else. */
const MAX_CONFIG_BYTES = 1 << 20;

/** @throws Error naming the file */
export async function readHfConfig(directory: string): Promise<HfConfigFiles> {
  const at = { config: join(directory, "config.json"), generation: join(directory, "generation_config.json") };
  const config = parseJson(await readBounded(at.config), at.config);
  const hasGeneration = await stat(at.generation).then(
    () => true,
    () => false,
  );
  return {
    config,
    generation: hasGeneration ? parseJson(await readBounded(at.generation), at.generation) : undefined,
    at,
  };
}

async function readBounded(path: string): Promise<string> {
  const { size } = await stat(path).catch((cause: unknown) => {
    throw new Error(`${path}: expected a file: a folder of a Hugging Face model has one`, { cause });
  });
  if (size > MAX_CONFIG_BYTES) throw new Error(`${path}: expected at most ${MAX_CONFIG_BYTES} bytes, got ${size}`);
  return readFile(path, "utf8");
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: expected JSON`, { cause });
  }
}
