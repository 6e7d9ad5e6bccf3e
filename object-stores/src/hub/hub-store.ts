/** A Hugging Face repository as an object store. Source: Hugging Face Hub API, "models/{repo}/tree". */
import { type HubConnection, requestHub } from "@nereid/server/hub/http";
import { fileUrl, type HubFile, listRepo } from "@nereid/server/hub/listing";
import type { HubRepo } from "@nereid/server/hub/names";
import { wantedFiles } from "@nereid/server/hub/patterns";
import type { Listing, ObjectReply, ObjectStore, StoredObject } from "../object-store.ts";

export interface HubStoreOptions {
  readonly url: string;
  readonly repo: HubRepo;
  readonly revision: string;
  readonly connection: Omit<HubConnection, "signal">;
}

export class HubStore implements ObjectStore {
  readonly url: string;
  readonly #options: HubStoreOptions;
  #commit = "";

  constructor(options: HubStoreOptions) {
    this.url = options.url;
    this.#options = options;
  }

  async list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing> {
    const { connection, repo, revision } = this.#options;
    const { commit, files } = await listRepo({ ...connection, signal }, repo, revision);
    this.#commit = commit;
    const objects = chosenFiles(files).map(objectOf);
    return isDeep ? within(objects, folder) : rightBelow(objects, folder);
  }

  async open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply> {
    const { connection, repo } = this.#options;
    const url = fileUrl(connection.endpoint, repo, this.#commit, object.path);
    const reply = await requestHub(
      { ...connection, signal },
      url,
      fromByte === 0 ? {} : { range: `bytes=${fromByte}-` },
    );
    return reply;
  }

  /** True when its folders are models; false when it is one model, like most repositories. */
  async isModelRepository(signal: AbortSignal): Promise<boolean> {
    const { objects } = await this.list("", true, signal);
    return objects.some(({ path }) => /^[^/]+\/(?:config\.pbtxt$|[1-9][0-9]*\/)/.test(path));
  }
}

/** Selects one format of a model that is stored in several. */
function chosenFiles(files: readonly HubFile[]): readonly HubFile[] {
  const paths = files.map(({ path }) => path);
  if (!paths.includes("config.json")) return files;
  const wanted = new Set(wantedFiles(paths, { include: [], exclude: [], servingOnly: true }));
  return files.filter(({ path }) => wanted.has(path));
}

function objectOf({ path, bytes, hash }: HubFile): StoredObject {
  return { path, bytes, version: hash.hex, checksum: hash };
}

function within(objects: readonly StoredObject[], folder: string): Listing {
  return { objects: objects.filter(({ path }) => folder === "" || path.startsWith(`${folder}/`)), folders: [] };
}

function rightBelow(objects: readonly StoredObject[], folder: string): Listing {
  const start = folder === "" ? 0 : folder.length + 1;
  const inside = within(objects, folder).objects;
  const folders = inside.flatMap(({ path }) => {
    const end = path.indexOf("/", start);
    return end < 0 ? [] : [path.slice(0, end)];
  });
  return { objects: inside.filter(({ path }) => !path.includes("/", start)), folders: [...new Set(folders)] };
}
