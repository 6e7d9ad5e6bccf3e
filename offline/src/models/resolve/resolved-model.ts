/** Results and tools of the search for a model by name. Plain data. */
import type { Environment } from "@nereid/server/core/environment";
import type { Reporter } from "@nereid/server/files/progress";
import type { HubSettings } from "@nereid/server/hub/settings";
import type { ModelStore } from "../store/model-store.ts";

export interface ResolvedModel {
  /** As the user gave it: the model's id in all APIs. */
  readonly name: string;
  /** `repository`: a model repository, served as it is. */
  readonly kind: "model" | "repository";
  /** Absolute path of a folder or of a GGUF file. */
  readonly path: string;
  /** Source of the files, for people. */
  readonly origin: string;
  /** Sampling values of generation_config.json that came with the model. */
  readonly sampling?: Readonly<Record<string, unknown>> | undefined;
  /** A system message that came with the model, for chats that have none of their own. */
  readonly system?: string | undefined;
  /** Remarks about the model that its user should know. */
  readonly notes?: readonly string[] | undefined;
}

export interface ResolveContext {
  readonly hub: HubSettings;
  readonly store: ModelStore;
  readonly env: Environment;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
  /** Fetch even if the files are here: a newer revision replaces them. */
  readonly refreshes: boolean;
}
