/**
 * The manifest of a model in an Ollama registry: which blobs it has. Pure: it checks what a server sent. Source: OCI
 * Image Manifest Specification 1.1; media types of Ollama's layers (application/vnd.ollama.image.*).
 */
import { isObject } from "@nereid/server/core/json-object";
import { ToolError } from "@nereid/server/files/tool-error";

export interface RegistryBlob {
  /** SHA-256, lower-case hex. */
  readonly sha256: string;
  readonly bytes: number;
}

export interface RegistryManifest {
  /** The GGUF file. */
  readonly model: RegistryBlob;
  /** JSON with the names of Ollama's parameters. */
  readonly params: RegistryBlob | undefined;
  readonly system: RegistryBlob | undefined;
  /** Layers that change nothing here, by their short names. */
  readonly unused: readonly string[];
}

export const MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json";
const LAYER_PREFIX = "application/vnd.ollama.image.";
const MAX_BLOB_BYTES = 2 ** 46;
/** Texts for people, and templates in Go's language: the GGUF file has its own in the model's. */
const SILENT = new Set(["license", "template"]);

/** @throws ToolError when it is none, or has layers without which the model would be another */
export function parseManifest(json: unknown, at: string): RegistryManifest {
  const layers: unknown[] = isObject(json) && Array.isArray(json.layers) ? json.layers : [];
  const found = new Map<string, RegistryBlob>();
  for (const layer of layers) {
    const kind = kindOf(layer);
    if (kind === undefined) continue;
    if (kind === "model" && found.has(kind)) throw wrong(at, "has several model layers, which are not supported");
    if (!found.has(kind)) found.set(kind, blobOf(layer, at));
  }
  const model = found.get("model");
  if (model === undefined) throw wrong(at, "has no layer with a GGUF file");
  if (found.has("adapter")) throw wrong(at, "has an adapter layer, which is not supported");
  const used = ["model", "params", "system"];
  const unused = [...found.keys()].filter((kind) => !used.includes(kind) && !SILENT.has(kind));
  return { model, params: found.get("params"), system: found.get("system"), unused };
}

function kindOf(layer: unknown): string | undefined {
  const type = isObject(layer) ? layer.mediaType : undefined;
  return typeof type === "string" && type.startsWith(LAYER_PREFIX) ? type.slice(LAYER_PREFIX.length) : undefined;
}

function blobOf(layer: unknown, at: string): RegistryBlob {
  const { digest, size } = isObject(layer) ? layer : {};
  const sha256 = typeof digest === "string" ? /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1] : undefined;
  if (sha256 === undefined) throw wrong(at, `has the digest ${JSON.stringify(digest)}`);
  const isSize = typeof size === "number" && Number.isSafeInteger(size) && size >= 0 && size <= MAX_BLOB_BYTES;
  if (!isSize) throw wrong(at, `has a layer of ${JSON.stringify(size)} bytes`);
  return { sha256, bytes: size };
}

function wrong(at: string, text: string): ToolError {
  return new ToolError(`The manifest ${at} ${text}`);
}
