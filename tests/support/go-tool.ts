/** Programs written in Go that tests drive: on the path, or built once into the folder for temporary files. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";

const BUILD_TIMEOUT_MS = 120_000;
/** Set it to have the large ones built too, which takes minutes. */
const BUILD_ALL = "NEREID_BUILD_CLIENTS";
const LARGE_BUILD_TIMEOUT_MS = 900_000;
const FOLDER = join(tmpdir(), "nereid-go-tools");

export interface GoToolSource {
  readonly name: string;
  /** Its name in release files. */
  readonly alias?: string;
  readonly module: string;
  /** Built only when it is asked for. */
  readonly isLarge?: boolean;
}

export type GoTool =
  | { readonly program: string; readonly reason: undefined }
  | { readonly program: undefined; readonly reason: string };

export function goTool({ name, alias = name, module, isLarge = false }: GoToolSource): GoTool {
  const built = join(FOLDER, "bin", name);
  const folders = (process.env.PATH ?? "").split(delimiter);
  const places = [...folders.flatMap((folder) => [join(folder, name), join(folder, alias)]), built];
  const found = places.find((place) => existsSync(place));
  if (found !== undefined) return { program: found, reason: undefined };
  if (isLarge && process.env[BUILD_ALL] === undefined) {
    return { program: undefined, reason: `${name} is not here; with ${BUILD_ALL}=1 it is built with Go` };
  }
  try {
    mkdirSync(FOLDER, { recursive: true });
    const env = { ...process.env, GOPATH: join(FOLDER, "go"), GOBIN: join(FOLDER, "bin"), GOFLAGS: "-modcacherw" };
    const timeout = isLarge ? LARGE_BUILD_TIMEOUT_MS : BUILD_TIMEOUT_MS;
    execFileSync("go", ["install", `${module}@latest`], { env, stdio: "ignore", timeout });
    if (existsSync(built)) return { program: built, reason: undefined };
  } catch {
    // No Go here, or no way to the module: the reason says both.
  }
  return { program: undefined, reason: `${name} cannot be built here: it needs Go and ${module}` };
}
