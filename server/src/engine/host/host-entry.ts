/** The program of the host role, from sources or built. */
import { fileURLToPath } from "node:url";

export function hostEntry(): string {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return fileURLToPath(new URL(`../../main/engine-host.${extension}`, import.meta.url));
}
