/**
 * Folder of things that tests make once for a machine: Python packages, compiled kernels, weights. It lies outside of the checkout, below the
 * system's folder for temporary files, so that a fresh clone finds it. Names in it tell all that a thing depends on.
 */
import { mkdirSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";

/** Each user has one. */
export const CACHE_FOLDER: string = join(tmpdir(), `nereid-test-cache-${userInfo().uid}`);
mkdirSync(CACHE_FOLDER, { recursive: true, mode: 0o700 });
