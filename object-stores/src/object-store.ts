/**
 * Interface of an object store: list objects and read them. Knows nothing of models. Types only. Sources: the calls
 * that S3, Google Cloud Storage and Azure Blob Storage have in common.
 */
import type { IncomingResponse } from "@nereid/server/files/http-response";

export interface Checksum {
  /** `git`: SHA-1 over a blob's header and content. */
  readonly kind: "md5" | "sha256" | "crc32c" | "git";
  /** Lower-case hex. */
  readonly hex: string;
}

export interface StoredObject {
  /** Relative to the root of the store, components separated by "/"; never leaves it. */
  readonly path: string;
  readonly bytes: number;
  /** Changes whenever the content does: entity tag, generation, hash, or else modification time. */
  readonly version: string;
  /** Checksum stated by the listing. */
  readonly checksum: Checksum | undefined;
}

export interface Listing {
  readonly objects: readonly StoredObject[];
  /** Folder paths: direct children for a shallow listing, and empty folders. */
  readonly folders: readonly string[];
}

export interface ObjectReply extends IncomingResponse {
  /** Checksum of the whole object from the response, when the listing had none. */
  readonly checksum?: Checksum | undefined;
}

export interface ObjectStore {
  /** Location for logs; contains no secrets. */
  readonly url: string;
  /** `folder`: "" or a path without a trailing slash. @throws TransientFailure, ToolError */
  list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing>;
  /** @throws TransientFailure when a retry may work, also when the object has changed meanwhile; ToolError */
  open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply>;
}
