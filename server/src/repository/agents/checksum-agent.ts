/**
 * The agent `checksum`: refuses a model whose files do not match its configuration, `MD5:<file>` -> hex digest. Source:
 * Triton's checksum_repository_agent; MD5: RFC 1321.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { invalidArgument } from "../../core/server-error.ts";
import { resolveContained } from "../source/path-containment.ts";
import type { RepositoryAgent } from "./repository-agent.ts";

const PREFIX = "MD5:";

export function createChecksumAgent(): RepositoryAgent {
  return {
    async load({ folder, parameters }) {
      for (const [key, expected] of Object.entries(parameters)) {
        if (!key.startsWith(PREFIX)) {
          const text = `parameter '${key}' of agent 'checksum': expected 'MD5:<file>', a path inside the model's folder`;
          throw invalidArgument(text);
        }
        await checkFile(folder, key.slice(PREFIX.length), expected);
      }
      return undefined;
    },
  };
}

async function checkFile(folder: string, file: string, expected: string): Promise<void> {
  const hash = createHash("md5");
  await pipeline(createReadStream(resolveContained(folder, file)), hash);
  const found = hash.digest("hex");
  if (found === expected.trim().toLowerCase()) return;
  const text = `Mismatched MD5 hash for file ${file}, expected: ${expected}, got: ${found}`;
  throw invalidArgument(text);
}
