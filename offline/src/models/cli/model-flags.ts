/** Flags of the commands that take the name of a model, and the tools that these commands share. */
import { homedir } from "node:os";
import process from "node:process";
import { UsageError } from "@nereid/server/cli/arguments";
import { ENGINE_NAMES, type EngineName } from "@nereid/server/engine/engine-spec";
import type { Reporter } from "@nereid/server/files/progress";
import { hubSettings } from "@nereid/server/hub/settings";
import type { ResolveContext } from "../resolve/resolved-model.ts";
import { openStore } from "../store/model-store.ts";

export const NAME_ARGUMENT = {
  name: "name",
  summary:
    "a folder, a .gguf file, org/model of the hub, hf.co/org/model:Q4_K_M, llama3.2:3b of Ollama's library, or a URL",
} as const;

interface Switch {
  readonly type: "switch";
  readonly summary: string;
}

interface Text {
  readonly type: "string";
  readonly value: string;
  readonly summary: string;
}

/** How a model is found and loaded. */
export const LOAD_FLAGS: {
  readonly offline: Switch;
  readonly "weight-type": Text;
  readonly engine: Text;
  readonly set: Text;
} = {
  offline: { type: "switch", summary: "use what is here and no network; also by HF_HUB_OFFLINE=1" },
  "weight-type": {
    type: "string",
    value: "TYPE",
    summary:
      "keep weights as f32, bf16, f16, q8_0, q4_0 or q4_1, on GPUs also fp8 or int4; default: as stored, narrower if that does not fit",
  },
  engine: {
    type: "string",
    value: "NAME",
    summary: "nereid, llama.cpp (any GGUF file) or auto, the default: nereid where it knows the model",
  },
  set: { type: "string", value: "KEY:VALUE,...", summary: "placeholders of the templates, as for nereid init-repo" },
};

/** @throws UsageError for another name */
export function engineOf({ engine }: { readonly engine?: string | undefined }): EngineName | undefined {
  const found = ENGINE_NAMES.find((name) => name === engine);
  if (engine === undefined || found !== undefined) return found;
  throw new UsageError(`--engine is '${engine}', expected ${ENGINE_NAMES.join(", ")}`);
}

export function resolveContext(
  { offline = false, refreshes = false }: { readonly offline?: boolean; readonly refreshes?: boolean },
  { reporter, signal }: { readonly reporter: Reporter; readonly signal: AbortSignal },
): ResolveContext {
  const hub = hubSettings(process.env, homedir());
  return {
    hub: { ...hub, isOffline: offline || hub.isOffline },
    store: openStore(process.env, homedir()),
    env: process.env,
    reporter,
    signal,
    refreshes,
  };
}
