/** Which modules a program reaches, and which packages they name. Knows nothing of where they are copied. */
import { isBuiltin } from "node:module";
import { build, type Metafile } from "esbuild";

export interface ModuleGraph {
  /** Paths of the modules, relative to the root folder. */
  readonly files: readonly string[];
  /** Names of the packages that they import; modules of Node itself left out. */
  readonly packages: ReadonlySet<string>;
}

/** @throws Error when a relative import leads nowhere */
export async function moduleGraph(root: string, entries: readonly string[]): Promise<ModuleGraph> {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [...entries],
    outdir: "unused",
    bundle: true,
    write: false,
    metafile: true,
    packages: "external",
    platform: "node",
    format: "esm",
    logLevel: "silent",
  });
  return { files: Object.keys(metafile.inputs).sort(), packages: importedPackages(metafile) };
}

function importedPackages(metafile: Metafile): Set<string> {
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  const names = imports.filter(({ external, path }) => external === true && !isBuiltin(path)).map(({ path }) => path);
  return new Set(names.map(packageName));
}

/** `@scope/name/deep/path.js` belongs to `@scope/name`. */
function packageName(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
