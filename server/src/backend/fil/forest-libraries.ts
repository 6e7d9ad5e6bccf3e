/** The libraries that compute tree models, each opened with the first model that needs it. */
import { open, readFile } from "node:fs/promises";
import type { Environment } from "../../core/environment.ts";
import { LazyPythonLibrary } from "../../native/python-library.ts";
import type { ForestModel, ForestOptions } from "../../native/trees/forest.ts";
import { LIGHTGBM_LIBRARY, LightgbmLibrary } from "../../native/trees/lightgbm.ts";
import { TREELITE_LIBRARY, TreeliteLibrary } from "../../native/trees/treelite.ts";
import { XGBOOST_LIBRARY, XgboostLibrary } from "../../native/trees/xgboost.ts";
import type { ForestFormat } from "./fil-settings.ts";

export interface ForestFile {
  readonly path: string;
  readonly format: ForestFormat;
  /** Path of the library that the model names. */
  readonly library: string | undefined;
  /** `--backend-config` of the backend. */
  readonly settings: ReadonlyMap<string, string>;
}

/** A model in memory, and the file of the library that computes it. */
export interface LoadedForest {
  readonly model: ForestModel;
  readonly library: string;
}

const BRACE = "{";

export class ForestLibraries {
  readonly #xgboost: LazyPythonLibrary<XgboostLibrary>;
  readonly #lightgbm: LazyPythonLibrary<LightgbmLibrary>;
  readonly #treelite: LazyPythonLibrary<TreeliteLibrary>;

  constructor(environment: Environment) {
    this.#xgboost = new LazyPythonLibrary(XGBOOST_LIBRARY, (path) => new XgboostLibrary(path), environment);
    this.#lightgbm = new LazyPythonLibrary(LIGHTGBM_LIBRARY, (path) => new LightgbmLibrary(path), environment);
    this.#treelite = new LazyPythonLibrary(TREELITE_LIBRARY, (path) => new TreeliteLibrary(path), environment);
  }

  /** @throws ForestError when the library refuses the file; Error when there is no library or no file */
  async load(file: ForestFile, options: ForestOptions): Promise<LoadedForest> {
    switch (await computedBy(file)) {
      case "xgboost": {
        const library = await this.#xgboost.get(named(file, "xgboost-library"));
        return { model: await library.load(await readFile(file.path), options), library: library.path };
      }
      case "lightgbm": {
        const library = await this.#lightgbm.get(named(file, "lightgbm-library"));
        return { model: await library.load(await readFile(file.path), options), library: library.path };
      }
      case "treelite": {
        const library = await this.#treelite.get(named(file, "treelite-library"));
        const format = file.format === "treelite_checkpoint" ? "checkpoint" : "xgboost-binary";
        return { model: await library.load(file.path, format, options), library: library.path };
      }
    }
  }
}

/** XGBoost's releases from 2.1 on write UBJSON where the old binary format was, and those from 3.1 on read no other. */
async function computedBy({ path, format }: ForestFile): Promise<"xgboost" | "lightgbm" | "treelite"> {
  if (format === "treelite_checkpoint") return "treelite";
  if (format === "lightgbm") return "lightgbm";
  return format !== "xgboost" || (await firstCharacter(path)) === BRACE ? "xgboost" : "treelite";
}

async function firstCharacter(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await file.close();
  }
}

function named({ library, settings }: ForestFile, setting: string): string | undefined {
  return library ?? settings.get(setting) ?? settings.get("library");
}
