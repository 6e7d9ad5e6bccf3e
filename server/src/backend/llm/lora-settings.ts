/** LoRA settings in a model's `parameters`. Pure: no folder is opened. */
import { resolve } from "node:path";
import type { ServerError } from "../../core/server-error.ts";
import { type AdapterSpec, DEFAULT_ADAPTERS } from "../../engine/adapters/adapter-choice.ts";

/** Reads a parameter by its name; undefined when it is not set. */
export interface LoraParameters {
  text(key: string): string | undefined;
  int(key: string): number | undefined;
  error(key: string, expected: string, text: string): ServerError;
}

/** Relative paths begin at the model's folder. @throws ServerError when a parameter makes no sense */
export function parseAdapters(parameters: LoraParameters, modelFolder: string): AdapterSpec {
  const folder = (key: string): string | undefined => {
    const text = parameters.text(key);
    return text === undefined ? undefined : resolve(modelFolder, text);
  };
  return {
    folders: parseFolders(parameters, modelFolder),
    root: folder("lora_dir"),
    requestRoot: folder("lora_request_dir"),
    prefetch: folder("lora_prefetch_dir"),
    maxBytes: parameters.int("lora_cache_host_memory_bytes") ?? DEFAULT_ADAPTERS.maxBytes,
    maxRank: parameters.int("lora_cache_max_adapter_size") ?? DEFAULT_ADAPTERS.maxRank,
  };
}

/** "name:path,name:path"; a name has no colon, a path no comma. */
function parseFolders(parameters: LoraParameters, modelFolder: string): AdapterSpec["folders"] {
  const text = parameters.text("lora_adapters");
  if (text === undefined) return [];
  const folders = new Map<string, string>();
  for (const entry of text.split(",")) {
    const [, name, path] = /^\s*([^:\s][^:]*?)\s*:\s*(\S.*?)\s*$/.exec(entry) ?? [];
    if (name === undefined || path === undefined || folders.has(name))
      throw parameters.error("lora_adapters", "name:folder,name:folder with each name once", text);
    folders.set(name, resolve(modelFolder, path));
  }
  return [...folders];
}
