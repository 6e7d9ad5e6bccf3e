/** Which modules a program reaches, and which modules of other packages they name. Knows nothing of what is built from them. */
import { isBuiltin } from "node:module";
import { build, type Metafile } from "esbuild";

export interface ModuleGraph {
  /** Paths of the modules, relative to the root folder. */
  readonly files: readonly string[];
  /** Specifiers of the modules of other packages; modules of Node itself left out. */
  readonly imports: ReadonlySet<string>;
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
  return { files: Object.keys(metafile.inputs).sort(), imports: externalImports(metafile) };
}

/** `@scope/name/module` and `name/module` without the module. */
export function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function externalImports(metafile: Metafile): Set<string> {
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  return new Set(imports.filter(({ external, path }) => external === true && !isBuiltin(path)).map(({ path }) => path));
}
