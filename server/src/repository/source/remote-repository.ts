/** Interface of a remote model repository: names, fingerprints, and models fetched to disk. */
import type { Logger } from "../../observe/log.ts";

export interface RemoteRepository {
  /** As the user wrote it, without secrets: also the namespace of its models. */
  readonly url: string;
  /** Lists the repository again. @throws ToolError when it is unreachable or invalid */
  refresh(): Promise<void>;
  /** Models of the last listing. */
  models(): readonly string[];
  /** Changes with any file of a model, as of the last listing; undefined when that listing was shallow. */
  fingerprint(model: string): string | undefined;
  /** Fetches a model, complete and verified. @throws ToolError: then nothing of it remains on disk */
  localize(model: string): Promise<LocalModel>;
  /** Aborts downloads. */
  close(): Promise<void>;
}

export interface LocalModel {
  /** Folder that contains the model's folder. */
  readonly repositoryPath: string;
  /** Fingerprint of exactly these files. */
  readonly fingerprint: string;
  /** Releases the files. Never rejects. */
  release(): Promise<void>;
}

/** Writes a model repository around the files of a language model. */
export type ArrangeModel = (modelFolder: string, repository: string, signal: AbortSignal) => Promise<void>;

export interface OpenRepositoryOptions {
  readonly url: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  /** The repository is polled for changes. */
  readonly isWatched: boolean;
  readonly arrangeModel: ArrangeModel;
  /** For tests. */
  readonly firstPauseMs?: number;
}
