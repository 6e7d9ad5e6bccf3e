/** The program of the embedded store's process. Started by embedded-store.ts. Source: PGlite documentation. */
import { existsSync } from "node:fs";
import { ServerError } from "@nereid/server/core/server-error";
import { serveWorkerCalls } from "@nereid/server/worker-process/serve-calls";
import type { EmbeddedCall, EmbeddedData } from "./embedded-calls.ts";
import { MemoryStore } from "./memory-store.ts";
import { openPglite } from "./open-pglite.ts";
import { SqlStore } from "./sql-store.ts";
import type { VectorStore } from "./vector-store.ts";

await serveWorkerCalls((given) => {
  const { kind, folder } = given as EmbeddedData;
  let store: Promise<VectorStore> | undefined;
  return Promise.resolve(async (body) => {
    const call = body as EmbeddedCall;
    // A query must not leave an empty database behind.
    const isThere = store !== undefined || call.method === "create" || existsSync(folder);
    if (!isThere) return call.method === "close" ? undefined : refuse(call.collection, `${kind}:${folder}`);
    store ??= open(kind, folder).catch((error: unknown) => {
      store = undefined; // another process may release it
      throw error;
    });
    return answer(await store, call);
  });
});

async function open(kind: EmbeddedData["kind"], folder: string): Promise<VectorStore> {
  return kind === "memory" ? new MemoryStore(folder) : new SqlStore(await openPglite(folder));
}

function refuse(collection: string, location: string): never {
  throw new ServerError("not_found", `collection '${collection}' is not in ${location}; make it with nereid index`);
}

function answer(store: VectorStore, call: EmbeddedCall): Promise<unknown> {
  switch (call.method) {
    case "search":
      return store.search(call.collection, call.query);
    case "create":
      return store.create(call.collection, call.shape);
    case "upsert":
      return store.upsert(call.collection, call.rows);
    case "digests":
      return store.digests(call.collection, call.ids);
    case "close":
      return store.close();
  }
}
