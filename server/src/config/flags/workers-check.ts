/** Refuses flags whose state belongs to one process, beside several processes with all models. */
import { FlagError } from "./flag-error.ts";
import type { ServerOptions } from "./server-options.ts";

type Options = Pick<ServerOptions, "workerCount" | "openai" | "memory" | "sagemaker" | "repository">;

/** @throws FlagError naming the flag and what it would do */
export function checkWorkers({ workerCount, openai, memory, sagemaker, repository }: Options): void {
  if (workerCount > 0 && repository.controlMode === "poll") {
    throw new FlagError(
      "Error: --workers cannot be used with --model-control-mode=poll: SIGHUP reads the repository again.",
    );
  }
  if (workerCount <= 1) return;
  const refused: readonly (readonly [isGiven: boolean, flag: string, why: string])[] = [
    [openai.apiKeyFile !== undefined, "--api-key-file", "each process would count rates and budgets for itself"],
    [openai.filesFolder !== undefined, "--openai-files-dir", "each process would run the batches of all"],
    [openai.allowsLoraUpdates, "--allow-lora-updates", "one process of several would load the adapter"],
    [openai.allowsMcp, "--allow-mcp", "sessions live in one process"],
    [memory.allowClientSharedMemory, "--allow-client-shm", "regions are registered with one process"],
    [sagemaker.isEnabled, "--allow-sagemaker", "its models are loaded by one process"],
  ];
  const found = refused.find(([isGiven]) => isGiven);
  if (found === undefined) return;
  throw new FlagError(`Error: ${found[1]} cannot be used with --workers=${workerCount}: ${found[2]}. Use --workers=1.`);
}
