/** Whether a version of a model would be loaded from the very same files again. Pure. */
import type { ModelFolder } from "./source/model-folder.ts";
import type { PolledModel } from "./source/model-sources.ts";

export interface SameVersion {
  /** All files of the version and of the model, but for its configuration and its other versions. */
  readonly hasSameFiles: boolean;
  readonly hasSameConfigFile: boolean;
}

/** Models that agents look at, and ensembles, which are bound to what they call, never count as the same. */
export function compareVersion(
  { folder: before, agents: agentsBefore, stepKeys }: PolledModel,
  { folder: after, agents: agentsAfter }: PolledModel,
  version: number,
): SameVersion {
  const isPlain = agentsBefore === undefined && agentsAfter === undefined && stepKeys.length === 0;
  const [filesBefore, configBefore] = linesOf(before, version);
  const [filesAfter, configAfter] = linesOf(after, version);
  return {
    hasSameFiles: isPlain && before.origin === after.origin && filesBefore.join("\n") === filesAfter.join("\n"),
    hasSameConfigFile: configBefore.join("\n") === configAfter.join("\n"),
  };
}

/** Lines of the fingerprint about the files of a version, and about the configuration file. */
function linesOf({ fingerprint, config, path, versions }: ModelFolder, version: number): [string[], string[]] {
  const others = versions.filter((other) => other !== version).map((other) => `${other}/`);
  const configFile = config?.path.slice(path.length + 1);
  const files: string[] = [];
  const configs: string[] = [];
  for (const line of fingerprint.split("\n")) {
    if (configFile !== undefined && line.startsWith(`${configFile} `)) configs.push(line);
    else if (!others.some((other) => line.startsWith(other))) files.push(line);
  }
  return [files, configs];
}
