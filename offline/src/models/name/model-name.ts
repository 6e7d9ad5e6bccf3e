/**
 * Reads the name of a model as a user types it: a path, a repository of the Hugging Face hub, a URL, or a name of an
 * Ollama registry. It looks at no file: the caller says which paths exist. Sources: Hugging Face hub documentation,
 * "Use Ollama with any GGUF Model" for `hf.co/org/model:tag`; Ollama's API reference, "Model names".
 */
import { ToolError } from "@nereid/server/files/tool-error";
import { expectRevision } from "@nereid/server/hub/names";

export interface HubName {
  readonly kind: "hub";
  /** `organisation/name`. */
  readonly id: string;
  readonly revision: string | undefined;
  /** Selects among GGUF files: `Q4_K_M`, or a file name. */
  readonly quantization: string | undefined;
}

export interface RegistryName {
  readonly kind: "registry";
  /** Undefined: the default registry. */
  readonly host: string | undefined;
  readonly namespace: string;
  readonly model: string;
  readonly tag: string;
}

export type ModelName =
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "url"; readonly url: URL }
  | HubName
  | RegistryName;

export interface NameContext {
  /** Address of the hub, without a trailing slash. */
  readonly endpoint: string;
  readonly exists: (path: string) => boolean;
}

const HUB_PREFIX = /^(?:hf\.co\/|huggingface\.co\/|hf:(?:\/\/)?)/;
const HUB_HOSTS: ReadonlySet<string> = new Set(["hf.co", "huggingface.co"]);
const REGISTRY_PREFIX = /^(?:ollama:(?:\/\/)?|ollama\.com\/|registry\.ollama\.ai\/)/;
/** A part of a name in a registry, or a tag. */
const PART = /^[A-Za-z0-9_][\w.-]{0,79}$/;
const HUB_ID = /^[\w-][\w.-]{0,95}\/[\w-][\w.-]{0,95}$/;
const DEFAULT_TAG = "latest";
const DEFAULT_NAMESPACE = "library";

/** @throws ToolError for a name of no kind */
export function parseModelName(text: string, context: NameContext): ModelName {
  if (text.trim() === "") throw notAName(text, "it is empty");
  if (/^https?:\/\//i.test(text)) return parseUrl(text, context);
  if (HUB_PREFIX.test(text)) return parseHub(text.replace(HUB_PREFIX, ""), text);
  if (REGISTRY_PREFIX.test(text)) return parseRegistry(text.replace(REGISTRY_PREFIX, ""), text);
  if (/^[a-z][a-z0-9+]*:\/\//i.test(text)) {
    throw notAName(text, "a model comes by http, https or hf; nereid serve --model-repository takes object stores");
  }
  if (isPath(text) || context.exists(text)) return { kind: "path", path: text };
  return text.includes("/") ? parseHub(text, text) : parseRegistry(text, text);
}

/** Texts that can be nothing but a path, whether it exists or not. */
function isPath(text: string): boolean {
  return /^(?:[/~]|\.{1,2}(?:\/|$))/.test(text) || text.endsWith(".gguf") || /^[^@]*\/[^@]*\//.test(text);
}

/** The address of a file or page of the hub is a name of the hub, so that its hash is checked. */
function parseUrl(text: string, { endpoint }: NameContext): ModelName {
  if (!URL.canParse(text)) throw notAName(text, "it is no address");
  const url = new URL(text);
  const isHub = HUB_HOSTS.has(url.host) || text.startsWith(`${endpoint}/`);
  const [organisation = "", name = "", verb, revision, ...file] = url.pathname.split("/").filter(Boolean);
  if (isHub && name !== "" && (verb === undefined || /^(?:resolve|blob|tree)$/.test(verb))) {
    const quantization = file.length === 0 ? undefined : decodeURIComponent(file.join("/"));
    return { kind: "hub", id: `${organisation}/${name}`, revision, quantization };
  }
  if (url.pathname.endsWith(".gguf")) return { kind: "url", url };
  throw notAName(text, "the address of a GGUF file ends in .gguf");
}

function parseHub(text: string, typed: string): HubName {
  const [, id = "", revision, quantization] = /^([^@:]*)(?:@([^:]*))?(?::(.*))?$/.exec(text.replace(/\/+$/, "")) ?? [];
  if (!HUB_ID.test(id) || id.includes("..") || id.includes("--") || quantization === "") {
    throw notAName(typed, "a name of the hub is organisation/model, with :Q4_K_M behind it for one of its GGUF files");
  }
  if (revision !== undefined) expectRevision(revision);
  return { kind: "hub", id, revision, quantization };
}

/** `model`, `model:tag`, `namespace/model:tag`, `host/namespace/model:tag`. */
function parseRegistry(text: string, typed: string): RegistryName {
  const colon = text.lastIndexOf(":");
  const hasTag = colon > text.lastIndexOf("/");
  const tag = hasTag ? text.slice(colon + 1) : DEFAULT_TAG;
  const parts = (hasTag ? text.slice(0, colon) : text).split("/");
  const host = parts.length === 3 ? parts.shift() : undefined;
  const [namespace = "", model = ""] = parts.length === 1 ? [DEFAULT_NAMESPACE, ...parts] : parts;
  if (parts.length > 2 || ![namespace, model, tag].every((part) => PART.test(part) && !part.includes(".."))) {
    throw notAName(typed, "a name of Ollama's library is model:tag, such as llama3.2:3b");
  }
  return { kind: "registry", host, namespace, model, tag };
}

function notAName(text: string, why: string): ToolError {
  return new ToolError(`'${text}' is no name of a model: ${why}`, { fix: NAME_FORMS });
}

export const NAME_FORMS =
  "Give a folder, a .gguf file, org/model of the hub, hf.co/org/model:Q4_K_M, a name of Ollama's library such as llama3.2:3b, or the URL of a .gguf file";
