/** Amazon's two files of profiles, ~/.aws/credentials and ~/.aws/config, as far as they hold keys and a region. Pure. */

export type Profile = ReadonlyMap<string, string>;

/** `[name]`, or `[profile name]` in the file of settings. Undefined when there is no such profile. */
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
