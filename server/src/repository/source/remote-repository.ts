/** A model repository that is not on this machine, as the repository sees it: names, marks of change, and models on the disk. */
import type { Logger } from "../../observe/log.ts";

export interface RemoteRepository {
  /** As the user wrote it, without secrets: also the namespace of its models. */
  readonly url: string;
  /** Looks what is there now. @throws ToolError when the place cannot be reached or is none */
  refresh(): Promise<void>;
  /** Models of the last look. */
  models(): readonly string[];
  /** Changes with any file of a model, as of the last look; undefined when that look did not go so deep. */
  fingerprint(model: string): string | undefined;
  /** Puts a model on the disk, whole and checked. @throws ToolError: then nothing of it is there */
  localize(model: string): Promise<LocalModel>;
  /** Ends what is under way. */
  close(): Promise<void>;
}

export interface LocalModel {
  /** The folder in which the model's folder lies, under its name. */
  readonly repositoryPath: string;
  /** Of exactly these files. */
  readonly fingerprint: string;
  /** Nobody uses the files any more. Never rejects. */
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
