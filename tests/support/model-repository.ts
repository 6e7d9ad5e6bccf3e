/** Model repositories in temporary folders, from texts and from copies of models that lie in the workspace. */
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const EXAMPLES: string = fileURLToPath(new URL("../../examples/model_repository", import.meta.url));
/** Flags that load of the examples what a test asks for: all of them start three processes and take four times the CPU. */
export const ONLY_SIMPLE: readonly string[] = ["--model-control-mode=explicit", "--load-model=simple"];
export const SIMPLE_AND_PIPELINE: readonly string[] = [...ONLY_SIMPLE, "--load-model=ensemble"];
export const GOLDEN_MODELS: string = fileURLToPath(new URL("../golden/repository/main", import.meta.url));

export interface ModelRepository extends AsyncDisposable {
  readonly path: string;
}

export interface RepositoryContent {
  /** Folders of models to copy. */
  readonly copies?: readonly string[];
  /** Texts by path below the repository, e.g. "repeat/config.pbtxt". A version folder "1" is made beside each config.pbtxt. */
  readonly files?: Readonly<Record<string, string>>;
}

/** The caller disposes of it. */
export async function createModelRepository({ copies = [], files = {} }: RepositoryContent): Promise<ModelRepository> {
  const path = await mkdtemp(join(tmpdir(), "nereid-models-"));
  for (const folder of copies) await cp(folder, join(path, folder.split("/").at(-1) ?? ""), { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    const target = join(path, name);
    await mkdir(join(dirname(target), name.endsWith("config.pbtxt") ? "1" : ""), { recursive: true });
    await writeFile(target, text);
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
