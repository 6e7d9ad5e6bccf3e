/**
 * Reads keys and region from the AWS profile files ~/.aws/credentials and ~/.aws/config. Source: AWS SDKs and Tools
 * Reference Guide, "Shared config and credentials files". Pure.
 */

export type Profile = ReadonlyMap<string, string>;

/** `[name]`, or `[profile name]` in the config file. Undefined when the profile does not exist. */
export function readProfile(text: string, name: string): Profile | undefined {
  let found: Map<string, string> | undefined;
  let isInside = false;
  for (const line of text.split(/\r?\n/)) {
    const section = /^\s*\[\s*(?:profile\s+)?([^\]]+?)\s*\]/.exec(line)?.[1];
    if (section !== undefined) {
      isInside = section === name;
      if (isInside) found ??= new Map();
      continue;
    }
    const [, key, value] = /^([a-z_]+)\s*=\s*(.*?)\s*$/i.exec(line) ?? [];
    if (isInside && key !== undefined && value !== undefined) found?.set(key, value);
  }
  return found;
}
