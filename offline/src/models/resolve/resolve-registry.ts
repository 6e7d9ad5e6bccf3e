/**
 * Finds a model of an Ollama registry: in this user's cache, otherwise it fetches manifest and blobs. Sources: OCI
 * Distribution Specification 1.1, "Pulling manifests" and "Pulling blobs"; Ollama's API reference, "Model names".
 */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { readText } from "@nereid/server/files/http-response";
import { formatBytes, formatDuration } from "@nereid/server/files/progress-text";
import { TargetLock } from "@nereid/server/files/target-lock";
import { ToolError } from "@nereid/server/files/tool-error";
import { type HubConnection, requestHub } from "@nereid/server/hub/http";
import { withRetries } from "@nereid/server/hub/retry";
import type { RegistryName } from "../name/model-name.ts";
import { parseParams } from "../ollama/model-params.ts";
import { DEFAULT_HOST, RegistryFiles } from "../ollama/registry-files.ts";
import { MANIFEST_TYPE, parseManifest, type RegistryManifest } from "../ollama/registry-manifest.ts";
import type { ResolveContext, ResolvedModel } from "./resolved-model.ts";
import { transferWithProgress } from "./transfer-with-progress.ts";

const REGISTRY_VARIABLE = "NEREID_OLLAMA_REGISTRY";
const MAX_MANIFEST_BYTES = 1 << 20;
const FIRST_PAUSE_MS = 500;

/** @throws ToolError that says where the model was looked for */
export async function resolveRegistry(
  name: string,
  parsed: RegistryName,
  context: ResolveContext,
): Promise<ResolvedModel> {
  const { hub, store, refreshes } = context;
  const files = new RegistryFiles(store);
  if (!refreshes || hub.isOffline) {
    const manifest = await files.read(parsed);
    if (manifest !== undefined) return describe(name, parsed, manifest, files, `in the cache ${store.registries}`);
  }
  if (hub.isOffline) {
    throw new ToolError(
      `'${name}' is no folder or file here, and as a name of Ollama's library not in ${store.registries}; the network may not be used`,
      {
        fix: `Fetch it with nereid pull ${name}, without --offline and HF_HUB_OFFLINE`,
      },
    );
  }
  const url = registryUrl(parsed, context);
  const manifest = await fetchModel(name, parsed, url, files, context);
  return describe(name, parsed, manifest, files, `from ${url}`);
}

function registryUrl({ host }: RegistryName, { env }: ResolveContext): string {
  if (host !== undefined) return `${/^(?:localhost|127\.)/.test(host) ? "http" : "https"}://${host}`;
  const { [REGISTRY_VARIABLE]: given = "" } = env;
  return given === "" ? `https://${DEFAULT_HOST}` : given.replace(/\/+$/, "");
}

async function describe(
  name: string,
  parsed: RegistryName,
  manifest: RegistryManifest,
  files: RegistryFiles,
  where: string,
): Promise<ResolvedModel> {
  const { sampling, unused } = parseParams(await files.text(manifest.params));
  const system = (await files.text(manifest.system)).trim();
  const ignored = [...unused.map((each) => `parameter ${each}`), ...manifest.unused.map((each) => `layer ${each}`)];
  return {
    name,
    kind: "model",
    path: files.modelPath(parsed),
    origin: `${parsed.namespace}/${parsed.model}:${parsed.tag} ${where}`,
    sampling: Object.keys(sampling).length === 0 ? undefined : sampling,
    system: system === "" ? undefined : system,
    notes: ignored.length === 0 ? [] : [`not used of the registry's settings: ${ignored.join(", ")}`],
  };
}

async function fetchModel(
  name: string,
  parsed: RegistryName,
  url: string,
  files: RegistryFiles,
  context: ResolveContext,
): Promise<RegistryManifest> {
  const { hub, signal, reporter } = context;
  const connection: HubConnection = {
    endpoint: url,
    token: undefined,
    endpointVariable: REGISTRY_VARIABLE,
    stallMs: hub.stallMs,
    signal,
  };
  const base = `${url}/v2/${parsed.namespace}/${parsed.model}`;
  const json = await fetchManifest(name, `${base}/manifests/${parsed.tag}`, connection, context);
  const manifest = parseManifest(json, `${base}/manifests/${parsed.tag}`);
  const blobs = [manifest.model, manifest.params, manifest.system].filter((blob) => blob !== undefined);
  await using _lock = await TargetLock.acquire(files.blobs);
  const missing = blobs.filter((blob) => !existsSync(files.blob(blob)));
  const bytes = missing.reduce((sum, blob) => sum + blob.bytes, 0);
  await requireFreeBytes(files.blobs, bytes);
  if (missing.length > 0) reporter.info(`${parsed.model}:${parsed.tag}: ${formatBytes(bytes)}, to ${files.blobs}`);
  const transfers = missing.map((blob) => ({
    file: {
      path: `${parsed.model}:${parsed.tag}`,
      bytes: blob.bytes,
      hash: { kind: "sha256" as const, hex: blob.sha256 },
    },
    url: `${base}/blobs/sha256:${blob.sha256}`,
    partial: `${files.blob(blob)}.incomplete`,
    target: files.blob(blob),
  }));
  if (missing.length > 0) await transferWithProgress(transfers, connection, context);
  await files.write(parsed, json, manifest);
  return manifest;
}

async function fetchManifest(
  name: string,
  url: string,
  connection: HubConnection,
  { signal, reporter }: ResolveContext,
): Promise<unknown> {
  const onRetry = (reason: string, pauseMs: number): void =>
    reporter.warn(`${reason}; trying again in ${formatDuration(pauseMs / 1000)}`);
  const options = { signal, firstPauseMs: FIRST_PAUSE_MS, progress: () => 0, onRetry };
  const text = await withRetries(name, options, async () => {
    const answer = await requestHub(connection, url, { accept: MANIFEST_TYPE });
    return readText(
      answer,
      MAX_MANIFEST_BYTES,
      () => new ToolError(`${url} is longer than ${MAX_MANIFEST_BYTES} bytes`),
    );
  }).catch((error: unknown) => {
    throw withPlaces(error, name, connection.endpoint);
  });
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ToolError(`${url} is no JSON`, { cause });
  }
}

/** The registry's answer, and that nothing of that name is on this machine either. */
function withPlaces(error: unknown, name: string, endpoint: string): unknown {
  if (!(error instanceof ToolError) || !/ answers 40[134]| is not open to/.test(error.message)) return error;
  return new ToolError(
    `'${name}' is neither here nor at ${endpoint} (looked for ${resolve(name)}, then ${error.message})`,
    {
      cause: error,
      fix: "Check the name and its tag at ollama.com/library; models of the Hugging Face hub are org/model",
    },
  );
}
