/** A temporary folder for each test that writes model repositories, and default options. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "node:test";
import { fileURLToPath } from "node:url";
import { Reporter } from "@nereid/server/files/progress";
import type { InitOptions } from "./init-repo.ts";

export const TEXT_MODEL: string = fileURLToPath(
  new URL("../../../../examples/nereid-tiny/language_model", import.meta.url),
);
const silent = { write: () => true };
export const reporter: Reporter = new Reporter({ mode: "quiet", command: "init-repo", stderr: silent, stdout: silent });
export const signal: AbortSignal = new AbortController().signal;

export interface TemporaryRepository {
  /** Created before each test, removed after it. */
  readonly root: string;
  /** Inside it; does not exist yet. */
  readonly repository: string;
  options(modelDir: string, changes?: Partial<InitOptions>): InitOptions;
  /** The text of a model's configuration. */
  config(model: string): string;
}

export function temporaryRepository(): TemporaryRepository {
  let root = "";
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "nereid-init-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));
  const repository = (): string => join(root, "repo");
  return {
    get root() {
      return root;
    },
    get repository() {
      return repository();
    },
    options: (modelDir, changes = {}) => ({
      modelDir,
      tokenizerDir: undefined,
      repository: repository(),
      maxBatchSize: 8,
      isDecoupled: true,
      others: new Map(),
      copiesModel: false,
      replaces: false,
      reporter,
      signal,
      ...changes,
    }),
    config: (model) => readFileSync(join(repository(), model, "config.pbtxt"), "utf8"),
  };
}
