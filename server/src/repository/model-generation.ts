/** Identifies the content of a loaded version, as part of response cache keys. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { fingerprintOf } from "./source/model-folder.ts";
import type { PolledModel } from "./source/model-sources.ts";

const READ_BYTES = 1 << 20;

/**
 * SHA-256 over the files of the version, the shared model files and the configuration of the load request. Equal models
 * have equal values on every machine.
 */
export async function contentGeneration({ folder, configJson }: PolledModel, version: number): Promise<string> {
  const { path, versions } = folder;
  const others = versions.filter((other) => other !== version).map((other) => `${other}/`);
  const hash = createHash("sha256");
  const text = (value: string): void => void hash.update(`${Buffer.byteLength(value)}:${value}`);
  for (const line of fingerprintOf(path).split("\n")) {
    const file = line.replace(/ \d+ [\d.]+$/, "");
    if (file === "" || others.some((other) => file.startsWith(other))) continue;
    text(file);
    let bytes = 0;
    for await (const chunk of createReadStream(join(path, file), { highWaterMark: READ_BYTES })) {
      bytes += (chunk as Uint8Array).length;
      hash.update(chunk as Uint8Array);
    }
    text(String(bytes));
  }
  text(configJson ?? "");
  return hash.digest("base64");
}
