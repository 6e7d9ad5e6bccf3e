/**
 * The backend `retrieval`: embeddings in, nearest documents of a collection out. Models with the same store share its
 * connections; the last model closes it.
 */
import process from "node:process";
import type { Backend, BackendModel, ModelSource } from "@nereid/server/backend/backend";
import { openStores, resolveAddress, type StoreOptions } from "../stores/open-store.ts";
import type { VectorStore } from "../stores/vector-store.ts";
import { RetrievalInstance } from "./retrieval-instance.ts";
import { type RetrievalSettings, readRetrievalSettings } from "./retrieval-settings.ts";

interface SharedStore {
  readonly store: VectorStore;
  users: number;
}

export function createBackend(): Backend {
  const stores = new Map<string, SharedStore>();
  return { name: "retrieval", load: (source) => load(source, stores), close: () => Promise.resolve() };
}

function load(source: ModelSource, stores: Map<string, SharedStore>): Promise<BackendModel> {
  const settings = readRetrievalSettings(source.config);
  const shared = acquire(settings, source, stores);
  return Promise.resolve({
    createInstance: ({ name }) => Promise.resolve(new RetrievalInstance(name, { settings, store: shared.store })),
    close: shared.release,
  });
}

function acquire(
  settings: RetrievalSettings,
  source: ModelSource,
  stores: Map<string, SharedStore>,
): { readonly store: VectorStore; readonly release: () => Promise<void> } {
  const { maxConnections, timeoutMs, retries } = settings;
  const log = (message: string): void => source.log.error("retrieval", message);
  const options: StoreOptions = {
    folder: source.modelFolder,
    maxConnections,
    timeoutMs,
    retries,
    log,
    env: process.env,
  };
  const address = resolveAddress(settings.store, options);
  // Different limits need another pool; a folder can be open only once.
  const isFolder = /^(?:memory|pglite):/.test(address);
  const bounds = isFolder && settings.documents === undefined ? [] : [maxConnections, timeoutMs, retries];
  const key = JSON.stringify([address, settings.documents, ...bounds]);
  const shared = stores.get(key) ?? { store: openStores(address, settings.documents, options), users: 0 };
  stores.set(key, shared);
  shared.users += 1;
  return {
    store: shared.store,
    async release() {
      shared.users -= 1;
      if (shared.users > 0) return;
      stores.delete(key);
      await shared.store.close();
    },
  };
}
