/**
 * Opens a store by address: `memory:<folder>`, `pglite:<folder>`, `postgresql://…`, `mongodb://…`. `env:NAME` reads the
 * address from a variable, which keeps passwords out of configurations. Sources: URI forms of libpq and MongoDB.
 */
import { resolve } from "node:path";
import { invalidArgument, type ServerError } from "@nereid/server/core/server-error";
import { EmbeddedStore } from "./embedded-store.ts";
import { MongoStore } from "./mongo-store.ts";
import { PostgresConnection } from "./postgres-connection.ts";
import { SplitStore } from "./split-store.ts";
import { SqlStore } from "./sql-store.ts";
import type { VectorStore } from "./vector-store.ts";

export interface StoreOptions {
  /** Base folder of relative paths. */
  readonly folder: string;
  readonly maxConnections: number;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly log: (message: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const MONGO = /^mongodb(?:\+srv)?:\/\//;

/** Vectors in one store, documents in the other if given. @throws ServerError when an address is invalid */
export function openStores(address: string, documents: string | undefined, options: StoreOptions): VectorStore {
  const store = openStore(address, options);
  if (documents === undefined) return store;
  const url = resolveAddress(documents, options);
  if (!MONGO.test(url)) throw invalidArgument("documents are expected at an address of mongodb://");
  return new SplitStore(store, new MongoStore({ url, ...options }));
}

/** Does not connect yet. @throws ServerError when the address is invalid */
export function openStore(address: string, options: StoreOptions): VectorStore {
  const url = resolveAddress(address, options);
  const embedded = /^(memory|pglite):(.+)$/.exec(url);
  if (embedded !== null) {
    const [, kind, path = ""] = embedded;
    return new EmbeddedStore({ kind: kind as "memory" | "pglite", folder: path }, options.log);
  }
  if (/^postgres(?:ql)?:\/\//.test(url)) return new SqlStore(new PostgresConnection({ url, ...options }));
  if (MONGO.test(url)) return new MongoStore({ url, ...options });
  throw unknownAddress(address);
}

/** @throws ServerError for an invalid address; errors of the store appear at its first use */
export function expectStoreAddress(address: string): void {
  if (!/^(?:memory|pglite):.|^(?:postgres(?:ql)?|mongodb(?:\+srv)?):\/\//.test(address)) throw unknownAddress(address);
}

/** The full address: variables expanded, paths absolute. Equal addresses are the same store. */
export function resolveAddress(address: string, { folder, env }: Pick<StoreOptions, "folder" | "env">): string {
  const variable = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(address)?.[1];
  if (variable !== undefined) {
    const value = env[variable];
    if (value === undefined || value === "") {
      throw invalidArgument(`the store's address is in the variable ${variable}, which is not set`);
    }
    return resolveAddress(value.replace(/^env:/, ""), { folder, env });
  }
  const embedded = /^(memory|pglite):(.+)$/.exec(address);
  return embedded === null ? address : `${embedded[1]}:${resolve(folder, embedded[2] ?? "")}`;
}

/** Collection names become names of tables and files. @throws ServerError */
export function expectCollectionName(name: string): void {
  if (/^[A-Za-z_][A-Za-z0-9_]{0,47}$/.test(name)) return;
  const text = `'${name}' is no name of a collection: expected up to 48 letters, digits and underscores, no digit in front`;
  throw invalidArgument(text);
}

function unknownAddress(address: string): ServerError {
  const scheme = /^[a-z+]*/i.exec(address)?.[0] ?? "";
  return invalidArgument(
    `no store is at an address of '${scheme}:'; expected memory:<folder>, pglite:<folder>, postgresql://…, mongodb://… or env:<variable>`,
  );
}
