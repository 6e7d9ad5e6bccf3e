/** One file that holds the input of a case, for readers that open files themselves. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** External data of the models that are seeds. */
const BESIDE = { name: "weights.bin", numBytes: 8 } as const;

/** Runs `use` with the path of a file of these bytes, in a folder of its own that is gone afterwards. */
export async function withScratchFile(bytes: Uint8Array, use: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "nereid-fuzz-"));
  const path = join(folder, "input");
  writeFileSync(path, bytes);
  writeFileSync(join(folder, BESIDE.name), Buffer.alloc(BESIDE.numBytes));
  try {
    await use(path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
