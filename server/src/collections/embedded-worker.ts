/** The program of the process that has an embedded store open. Started by embedded-store.ts. */
import { serveHelper } from "../helper/serve-helper.ts";
import type { EmbeddedCall, EmbeddedData } from "./embedded-calls.ts";
import { MemoryStore } from "./memory-store.ts";
import { openPglite } from "./open-pglite.ts";
import { SqlStore } from "./sql-store.ts";
import type { VectorStore } from "./vector-store.ts";

await serveHelper(async (given) => {
  const { kind, folder } = given as EmbeddedData;
  const store = kind === "memory" ? new MemoryStore(folder) : new SqlStore(await openPglite(folder));
  return (body) => answer(store, body as EmbeddedCall);
});

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
