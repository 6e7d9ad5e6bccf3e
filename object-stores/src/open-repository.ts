/**
 * Creates the repository for a `--model-repository` value. The only file that knows all kinds of stores. Source: Triton
 * documentation, "Model Repository", Cloud Storage.
 */
import { homedir, tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { parseRepoName } from "@nereid/server/hub/names";
import { hubSettings } from "@nereid/server/hub/settings";
import type { OpenRepositoryOptions, RemoteRepository } from "@nereid/server/repository/source/remote-repository";
import { createArchiveRepository } from "./archive/archive-repository.ts";
import { ArchiveStore } from "./archive/archive-store.ts";
import { findAzureIdentity, parseConnectionString } from "./azure/azure-identity.ts";
import { AzureStore } from "./azure/azure-store.ts";
import { type CloudKind, credentialFor } from "./credential-file.ts";
import { type StoresEnvironment, type StoreVariable, variable } from "./environment.ts";
import { findGcsIdentity } from "./gcs/gcs-identity.ts";
import { GcsStore } from "./gcs/gcs-store.ts";
import { createHubModelRepository } from "./hub/hub-model-repository.ts";
import { HubStore } from "./hub/hub-store.ts";
import { ObjectCache } from "./object-cache.ts";
import { ObjectRepository } from "./object-repository.ts";
import type { ObjectStore } from "./object-store.ts";
import { findS3Identity } from "./s3/s3-credentials.ts";
import { S3Store } from "./s3/s3-store.ts";
import { parseStoreAddress, type StoreAddress } from "./store-address.ts";

type Address<Kind extends StoreAddress["kind"]> = Extract<StoreAddress, { kind: Kind }>;

const FIRST_PAUSE_MS = 500;
const DEFAULT_STALL_SECONDS = 30;

/** @throws ToolError for an invalid address or setting; no request is sent yet, except to a hub */
export async function openRepository(options: OpenRepositoryOptions): Promise<RemoteRepository> {
  const address = parseStoreAddress(options.url);
  const { log, isWatched, firstPauseMs = FIRST_PAUSE_MS, arrangeModel } = options;
  const cache = await openCache(address, options.env, firstPauseMs);
  if (address.kind === "archive") {
    const stallMs = stallMsOf(options.env);
    return createArchiveRepository({ store: new ArchiveStore({ ...address, stallMs }), cache, log, firstPauseMs });
  }
  const store = address.kind === "hf" ? await openHub(address, options) : openCloud(address, options);
  if (store instanceof HubStore && !(await store.isModelRepository(new AbortController().signal))) {
    return createHubModelRepository({ store, cache, log, firstPauseMs, arrange: arrangeModel });
  }
  return new ObjectRepository({ store, cache, log, isWatched, firstPauseMs });
}

function openCloud(address: Address<"s3" | "gs" | "as">, options: OpenRepositoryOptions): ObjectStore {
  if (address.kind === "s3") return openS3(address, options);
  return address.kind === "gs" ? openGcs(address, options) : openAzure(address, options);
}

function openS3(address: Address<"s3">, { url, env }: OpenRepositoryOptions): ObjectStore {
  const stallMs = stallMsOf(env);
  const endpoint = address.endpoint ?? variable(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")?.replace(/\/+$/, "");
  return new S3Store({
    ...address,
    url,
    endpoint,
    stallMs,
    findIdentity: async (signal) => findS3Identity(await cloudCredential("s3", url, env), env, { stallMs, signal }),
  });
}

function openGcs(address: Address<"gs">, { url, env }: OpenRepositoryOptions): ObjectStore {
  const stallMs = stallMsOf(env);
  const emulator = variable(env, "STORAGE_EMULATOR_HOST");
  const endpoint = emulator === undefined ? "https://storage.googleapis.com" : withScheme(emulator);
  return new GcsStore({
    ...address,
    url,
    endpoint,
    stallMs,
    async findIdentity(signal) {
      const file = await cloudCredential("gs", url, env);
      if (file !== undefined && typeof file !== "string") {
        throw new ToolError(`The credential of '${url}' is no text, expected the path of a file`);
      }
      return findGcsIdentity(file, env, { stallMs, signal });
    },
  });
}

function openAzure(address: Address<"as">, { url, env }: OpenRepositoryOptions): ObjectStore {
  const stallMs = stallMsOf(env);
  const connection = parseConnectionString(variable(env, "AZURE_STORAGE_CONNECTION_STRING") ?? "");
  const isNamed = connection.get("accountname") === address.account;
  const named = isNamed ? connection.get("blobendpoint") : undefined;
  const { account } = address;
  return new AzureStore({
    ...address,
    url,
    endpoint: (named ?? `https://${account}.blob.core.windows.net`).replace(/\/+$/, ""),
    stallMs,
    findIdentity: async (signal) =>
      findAzureIdentity(await cloudCredential("as", url, env), account, env, { stallMs, signal }),
  });
}

async function openHub({ name }: Address<"hf">, { url, env }: OpenRepositoryOptions): Promise<HubStore> {
  const settings = hubSettings(env, homedir());
  const { repo, revision } = parseRepoName(name, "model", settings.endpoint);
  const { endpoint, token, stallMs } = settings;
  return new HubStore({ url, repo, revision: revision ?? "main", connection: { endpoint, token, stallMs } });
}

/** The file is read at each resolution: it may have been corrected. */
async function cloudCredential(kind: CloudKind, url: string, env: StoresEnvironment): Promise<unknown> {
  const file = variable(env, "TRITON_CLOUD_CREDENTIAL_PATH");
  return file === undefined ? undefined : credentialFor(file, kind, url);
}

const MOUNT_VARIABLES: Readonly<Record<StoreAddress["kind"], StoreVariable>> = Object.freeze({
  s3: "TRITON_AWS_MOUNT_DIRECTORY",
  gs: "TRITON_GCS_MOUNT_DIRECTORY",
  as: "TRITON_AZURE_MOUNT_DIRECTORY",
  hf: "NEREID_MODEL_CACHE",
  archive: "NEREID_MODEL_CACHE",
});

/** A configured folder keeps its contents; a temporary one is removed with its models. */
function openCache({ kind }: StoreAddress, env: StoresEnvironment, firstPauseMs: number): Promise<ObjectCache> {
  const named = variable(env, MOUNT_VARIABLES[kind], "NEREID_MODEL_CACHE");
  const folder = named ?? join(tmpdir(), `nereid-models-${userInfo().uid}`);
  return ObjectCache.open({ folder, isPersistent: named !== undefined, firstPauseMs });
}

function stallMsOf(env: StoresEnvironment): number {
  const text = variable(env, "NEREID_STORE_TIMEOUT_SECONDS");
  const seconds = Number(text ?? DEFAULT_STALL_SECONDS);
  if (seconds > 0 && seconds <= 3600) return seconds * 1000;
  throw new ToolError(`NEREID_STORE_TIMEOUT_SECONDS is '${text}', expected seconds up to 3600`);
}

function withScheme(host: string): string {
  return (/^https?:\/\//.test(host) ? host : `http://${host}`).replace(/\/+$/, "");
}
