/** What a place that keeps objects under names can do for us: list them and send them. Knows nothing of models. Types only. */
import type { IncomingResponse } from "@nereid/server/files/http-response";

export interface Checksum {
  /** `git`: SHA-1 over a blob's header and content. */
  readonly kind: "md5" | "sha256" | "crc32c" | "git";
  /** Lower-case hex. */
  readonly hex: string;
}

export interface StoredObject {
  /** Beneath the root of the store, parts parted by "/"; never leaves it. */
  readonly path: string;
  readonly bytes: number;
  /** Changes whenever the content does: an entity tag, a generation, a hash, or failing these the time of change. */
  readonly version: string;
  /** What the listing says of the content. */
  readonly checksum: Checksum | undefined;
}

export interface Listing {
  readonly objects: readonly StoredObject[];
  /** Paths of folders: those right below when the listing is not deep, and those that are there although they are empty. */
  readonly folders: readonly string[];
}

export interface ObjectReply extends IncomingResponse {
  /** What the answer itself says of the content of the whole object, where the listing said nothing. */
  readonly checksum?: Checksum | undefined;
}

export interface ObjectStore {
  /** For logs and as the name of the place; holds no secrets. */
  readonly url: string;
  /** `folder`: "" or a path without a slash at its end. @throws TransientFailure, ToolError */
  list(folder: string, isDeep: boolean, signal: AbortSignal): Promise<Listing>;
  /** @throws TransientFailure when it may work a moment later, as when the object has changed meanwhile; ToolError */
  open(object: StoredObject, fromByte: number, signal: AbortSignal): Promise<ObjectReply>;
}
