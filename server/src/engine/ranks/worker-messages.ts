/** Messages between the thread of a rank and its leader. Steps are plain words. */

import type { RankTask } from "./follow.ts";
import type { GroupIds } from "./rank-group.ts";

export type ToRank = { readonly kind: "join"; readonly ids: GroupIds } | { readonly kind: "close" } | Int32Array;

export type FromRank =
  | { readonly kind: "opened" }
  | { readonly kind: "ready"; readonly numBlocks: number }
  | { readonly kind: "failed"; readonly message: string };

export interface RankThreadData {
  readonly task: RankTask;
  /** i32 [1]: counts messages, so that the thread can sleep until one comes. */
  readonly signal: SharedArrayBuffer;
}
