/** How a request says which adapter it wants. Plain data: it crosses a process boundary. */
import type { TrtllmLora } from "../../formats/trtllm/lora.ts";

export type AdapterChoice =
  /** One of the model's own. */
  | { readonly kind: "name" | "path"; readonly text: string }
  /** One that a request brought, known by a number from then on. */
  | { readonly kind: "task"; readonly id: bigint; readonly matrices?: TrtllmLora | undefined };

/** Adapter limits of an engine. */
export interface AdapterSpec {
  /** Folders of PEFT by name. */
  readonly folders: readonly (readonly [name: string, path: string])[];
  /** A folder whose sub-folders are such, by their names. */
  readonly root?: string | undefined;
  /** The folder below which requests may name others, where it differs from `root`. None of its adapters is looked for. */
  readonly requestRoot?: string | undefined;
  /** A folder of numbered sub-folders, each a task in two .npy files, which are loaded at the start. */
  readonly prefetch?: string | undefined;
  /** Sum over all adapters in memory. */
  readonly maxBytes: number;
  readonly maxRank: number;
}

/** None but what requests bring; the sizes are upstream's. */
export const DEFAULT_ADAPTERS: AdapterSpec = Object.freeze({ folders: [], maxBytes: 2 ** 30, maxRank: 64 });
