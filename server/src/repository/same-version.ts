/** Decides whether reloading a version would read exactly the same files. Pure. */
import type { ModelFolder } from "./source/model-folder.ts";
import type { PolledModel } from "./source/model-sources.ts";

export interface SameVersion {
  /** All files of the version and of the model, except its configuration and other versions. */
  readonly hasSameFiles: boolean;
  readonly hasSameConfigFile: boolean;
}

/** Models with agents, and ensembles, which depend on other models, never count as the same. */
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

/** Fingerprint lines for the files of a version, and for the configuration file. */
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
