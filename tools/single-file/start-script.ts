/** The text in front of the archive of a single-file program: `packaging/single-file/start.sh` with its values. Pure. */

export interface StartValues {
  readonly version: string;
  /** For instance `linux-x64`. */
  readonly platform: string;
  /** SHA-256 of the archive, in hexadecimal digits. */
  readonly hash: string;
}

/** The offset counts from 1, as `tail -c +N` does, and is part of the text whose length it is. */
export function startScript(template: string, { version, platform, hash }: StartValues): string {
  const filled = template
    .replaceAll("@VERSION@", version)
    .replaceAll("@PLATFORM@", platform)
    .replaceAll("@HASH@", hash);
  const rest = Buffer.byteLength(filled.replaceAll("@OFFSET@", ""));
  const numUses = filled.split("@OFFSET@").length - 1;
  // More digits make the text longer, which may need one digit more.
  for (let digits = 1; ; digits += 1) {
    const offset = rest + numUses * digits + 1;
    if (String(offset).length === digits) return filled.replaceAll("@OFFSET@", String(offset));
  }
}
