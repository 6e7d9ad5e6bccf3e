/**
 * Settings of an image model from its configuration: tensors, location of the processor's description, and client
 * permissions. Parameters override fields of the description with the same name. Pure, except for reading that file.
 */
import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ModelSource } from "@nereid/server/backend/backend";
import { DEFAULT_MAX_IMAGE_PIXELS, DEFAULT_MAX_PATCHES } from "@nereid/server/core/limits";
import type { ModelConfig } from "@nereid/server/core/model-config";
import { invalidArgument, ServerError } from "@nereid/server/core/server-error";
import type { FetchRules } from "./fetch-image.ts";
import type { PixelType } from "./messages.ts";
import { type ImageProcessing, parseProcessor } from "./processor-config.ts";
import type { Json } from "./processor-fields.ts";

export interface ImageSettings {
  /** Name of the input with images. */
  readonly input: string;
  readonly pixels: { readonly name: string; readonly type: PixelType; readonly rank: number };
  /** Configured outputs, with their integer types. */
  readonly sizes: IntOutput | undefined;
  readonly grids: IntOutput | undefined;
  readonly order: IntOutput | undefined;
  readonly lengths: IntOutput | undefined;
  readonly positions: IntOutput | undefined;
  readonly processing: ImageProcessing;
  /** Source text of `processing`, and its name for messages. */
  readonly fields: readonly (readonly [string, Json])[];
  readonly where: string;
  readonly maxPixels: number;
  readonly maxPatches: number;
  /** Undefined: URLs are refused. */
  readonly fetching: FetchRules | undefined;
  readonly isBatching: boolean;
}

export interface IntOutput {
  readonly name: string;
  readonly type: "INT32" | "INT64";
}

const FILES = ["preprocessor_config.json", "processor_config.json"];
const DEFAULT_FETCH_TIMEOUT_MS = 10_000;
const MAX_FILE_BYTES = 1024 * 1024;
/** Earlier names of parameters, which still work. */
const ALIASES: Readonly<Record<string, string>> = {
  max_pixels_per_image: "max_pixels_per_picture",
  image_urls: "picture_urls",
  image_url_hosts: "picture_url_hosts",
  image_url_timeout_ms: "picture_url_timeout_ms",
};
/** Parameters for the server, not for image processing. */
const OWN_PARAMETERS: ReadonlySet<string> = new Set([
  "processor",
  "max_patches_per_request",
  ...Object.entries(ALIASES).flat(),
]);

/** @throws ServerError when the configuration or the description is invalid */
export function readImageSettings(
  source: Pick<ModelSource, "config" | "modelFolder" | "versionFolder">,
): ImageSettings {
  const { config } = source;
  const input = config.input.find(({ data_type }) => data_type === "TYPE_STRING");
  if (config.input.length !== 1 || input === undefined) {
    throw wrong(config, "the image backend expects one input of TYPE_STRING, the images");
  }
  const description = processingOf(source);
  const isList = description.processing.tiles !== undefined || description.processing.patches !== undefined;
  if (isList && config.max_batch_size > 0) {
    const text = "images of one request become one list of tiles or patches: max_batch_size must be 0";
    throw wrong(config, text);
  }
  return {
    input: input.name,
    pixels: pixelsOf(config),
    sizes: intOutput(config, "image_sizes"),
    grids: intOutput(config, "image_grid_thw"),
    order: intOutput(config, "visual_order"),
    lengths: intOutput(config, "visual_lengths"),
    positions: intOutput(config, "patch_positions"),
    ...description,
    maxPixels: wholeNumber(config, "max_pixels_per_image", DEFAULT_MAX_IMAGE_PIXELS),
    maxPatches: wholeNumber(config, "max_patches_per_request", DEFAULT_MAX_PATCHES),
    fetching: fetchingOf(config),
    isBatching: config.max_batch_size > 0,
  };
}

function pixelsOf(config: ModelConfig): ImageSettings["pixels"] {
  const output = config.output.find(({ data_type }) => data_type === "TYPE_FP32" || data_type === "TYPE_FP16");
  if (output === undefined)
    throw wrong(config, "the image backend expects an output of TYPE_FP32 or TYPE_FP16, the pixels");
  const type = output.data_type === "TYPE_FP16" ? "FP16" : "FP32";
  return { name: output.name, type, rank: output.dims.length + (config.max_batch_size > 0 ? 1 : 0) };
}

function intOutput(config: ModelConfig, name: string): IntOutput | undefined {
  const output = config.output.find((candidate) => candidate.name === name);
  if (output === undefined) return undefined;
  if (output.data_type === "TYPE_INT32") return { name, type: "INT32" };
  if (output.data_type === "TYPE_INT64") return { name, type: "INT64" };
  throw wrong(config, `output '${name}' must be TYPE_INT32 or TYPE_INT64`);
}

function processingOf({
  config,
  modelFolder,
  versionFolder,
}: Parameters<typeof readImageSettings>[0]): Pick<ImageSettings, "processing" | "fields" | "where"> {
  const path = textOf(config, "processor");
  const found = findDescription([modelFolder, versionFolder], path);
  if (found === undefined && path !== undefined) {
    throw wrong(config, `parameter 'processor' is '${path}', and there is no ${FILES.join(" or ")} in ${modelFolder}`);
  }
  const fields = new Map(found === undefined ? [] : readDescription(found));
  for (const key of Object.keys(config.parameters)) {
    const value = textOf(config, key);
    if (!OWN_PARAMETERS.has(key) && value !== undefined) fields.set(key, parseValue(value));
  }
  const where = `model '${config.name}'`;
  return { processing: parseProcessor(fields, where), fields: [...fields], where };
}

/** A file, or a folder that contains one, relative to the model's folder or its version's folder. */
function findDescription(folders: readonly string[], path: string | undefined): string | undefined {
  for (const folder of folders) {
    const place = resolve(folder, path ?? ".");
    const candidates = [place, ...FILES.map((file) => join(place, file))];
    const file = candidates.find((candidate) => statSync(candidate, { throwIfNoEntry: false })?.isFile() === true);
    if (file !== undefined) return file;
  }
  return undefined;
}

function readDescription(path: string): [string, Json][] {
  try {
    const text = readFileSync(path, "utf8");
    if (text.length > MAX_FILE_BYTES) throw new Error(`more than ${MAX_FILE_BYTES} bytes`);
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("not a JSON object");
    const outer = value as Readonly<Record<string, Json>>;
    const inner = outer.image_processor; // newer files describe all processors of a model in one
    return Object.entries(typeof inner === "object" && inner !== null && !Array.isArray(inner) ? inner : outer);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `${path}: ${reason}`, { cause });
  }
}

/** Parameters are strings; valid JSON is parsed. */
function parseValue(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function fetchingOf(config: ModelConfig): FetchRules | undefined {
  const key = givenName(config, "image_urls");
  const reach = textOf(config, key) ?? "off";
  if (reach === "off") return undefined;
  if (reach !== "public" && reach !== "any") {
    throw wrong(config, `parameter '${key}' is '${reach}', expected off, public or any`);
  }
  const hosts = (textOf(config, givenName(config, "image_url_hosts")) ?? "")
    .split(",")
    .map((host) => host.trim().toLowerCase());
  return {
    reach,
    hosts: new Set(hosts.filter((host) => host !== "")),
    timeoutMs: wholeNumber(config, "image_url_timeout_ms", DEFAULT_FETCH_TIMEOUT_MS),
  };
}

function wholeNumber(config: ModelConfig, name: string, fallback: number): number {
  const key = givenName(config, name);
  const text = textOf(config, key);
  if (text === undefined) return fallback;
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text)) && Number(text) > 0) return Number(text);
  throw wrong(config, `parameter '${key}' is '${text}', expected a whole number above 0`);
}

/** The name of a parameter that the configuration uses: its own, or the earlier one. */
function givenName(config: ModelConfig, name: string): string {
  const alias = ALIASES[name];
  return alias !== undefined && textOf(config, name) === undefined && textOf(config, alias) !== undefined
    ? alias
    : name;
}

function textOf(config: ModelConfig, key: string): string | undefined {
  const value = Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
  return value === undefined || value === "" || value.startsWith("${") ? undefined : value;
}

function wrong({ name }: ModelConfig, text: string): ServerError {
  return invalidArgument(`model '${name}': ${text}`);
}
