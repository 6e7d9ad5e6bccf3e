/**
 * Copies an `inflight_batcher_llm` repository, filled or not, with another model in the place of its TensorRT engine, for
 * this server. The copy appears when all of its models would load. The original stays as it is.
 */
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ToolError } from "@nereid/server/files/tool-error";
import { findTokenizer } from "./find-tokenizer.ts";
import { expectServed, type InitOptions, type InitResult } from "./init-repo.ts";
import { migratedConfig } from "./migrate-config.ts";
import { examine, expectRoom, openStage, show } from "./repository-stage.ts";
import { repositoryValues } from "./repository-values.ts";
import { TEMPLATE_MODELS } from "./template-folder.ts";

const CONFIG = "config.pbtxt";
/** Holds code of one GPU, and may be large. */
const ENGINE_FILE = /^rank\d+\.engine$/;

/** `from`: the old repository. @throws ToolError: then nothing has changed */
export async function migrateRepository(options: InitOptions, from: string): Promise<InitResult> {
  const source = resolve(from);
  const names = await modelsOf(source);
  const model = resolve(options.modelDir);
  const repository = resolve(options.repository);
  await expectServed(model, undefined);
  const tokenizer = await findTokenizer(options.tokenizerDir, model);
  await expectRoom(repository, names, options.replaces);
  const { maxBatchSize, isDecoupled, others } = options;
  const values = repositoryValues({ engineDir: model, tokenizerDir: tokenizer, maxBatchSize, isDecoupled, others });
  await using folder = await openStage(repository);
  for (const name of names) {
    await copyModel(join(source, name), join(folder.path, name));
    const text = await readFile(join(source, name, CONFIG), "utf8");
    await writeFile(join(folder.path, name, CONFIG), migratedConfig(text, values));
  }
  const findings = await examine(folder.path, repository, options);
  options.signal.throwIfAborted();
  await show(folder, repository, names);
  return { repository, models: names, findings };
}

/** Models with a configuration, callers last. @throws ToolError when there is no engine among them */
async function modelsOf(source: string): Promise<readonly string[]> {
  const entries = await readdir(source, { withFileTypes: true }).catch((cause: unknown) => {
    throw new ToolError(`Cannot read the repository ${source}`, { cause, fix: "Give --from with its folder" });
  });
  const names = entries
    .filter((entry) => entry.isDirectory() && existsSync(join(source, entry.name, CONFIG)))
    .map(({ name }) => name)
    .sort((a, b) => TEMPLATE_MODELS.indexOf(a) - TEMPLATE_MODELS.indexOf(b));
  for (const name of names) {
    if ((await readFile(join(source, name, CONFIG), "utf8")).includes('"gpt_model_path"')) return names;
  }
  throw new ToolError(
    `No model of ${source} has the parameter 'gpt_model_path': this is no inflight_batcher_llm repository`,
    {
      fix: "Repositories of the layouts llmapi and vllm need no change: nereid serve --model-repository=<folder>",
    },
  );
}

async function copyModel(source: string, target: string): Promise<void> {
  await mkdir(join(target, "1"), { recursive: true });
  await cp(source, target, { recursive: true, filter: (path) => !ENGINE_FILE.test(path.split(/[/\\]/).at(-1) ?? "") });
}
