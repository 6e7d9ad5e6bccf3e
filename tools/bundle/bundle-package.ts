/**
 * Bundles a package into its `dist`: a file for each module that others start from, and chunks that they share. A process
 * loads tens of files in place of hundreds, and no module exists twice (esbuild, "Splitting").
 */
import { mkdir, readFile, rename, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import process from "node:process";
import { build, type Metafile } from "esbuild";
import { filesBelow } from "../packaging/stage-files.ts";
import { markAddresses, resolveAddresses } from "./module-address.ts";
import { SOURCE_CONDITION } from "./workspace-modules.ts";

/** JavaScript and its maps are this tool's; declarations are the compiler's. */
const BUILT = /\.js(\.map)?$/;

export interface Bundle {
  /** Relative to the output folder. */
  readonly files: ReadonlyMap<string, string>;
  /** Paths are relative to the package's folder. */
  readonly metafile: Metafile;
}

/** Sources `entries` are relative to the package's folder `home`. Writes nothing. */
export async function bundlePackage(home: string, entries: readonly string[]): Promise<Bundle> {
  const sources = join(home, await rootFolder(home));
  const outdir = join(home, "dist");
  const { outputFiles, metafile } = await build({
    absWorkingDir: home,
    entryPoints: [...entries],
    outbase: sources,
    outdir,
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    splitting: true,
    write: false,
    metafile: true,
    packages: "external",
    conditions: [SOURCE_CONDITION],
    platform: "node",
    format: "esm",
    target: "node20.19",
    charset: "utf8",
    legalComments: "inline",
    sourcemap: true,
    sourcesContent: false,
    logLevel: "warning",
    plugins: [markAddresses(sources)],
  });
  const files = outputFiles.map(({ path, text }): [string, string] => {
    const file = relative(outdir, path);
    return [file, resolveAddresses(text, file)];
  });
  return { files: new Map(files), metafile };
}

/** Replaces the package's built modules; those of earlier builds leave. */
export async function writeBundle(home: string, { files }: Bundle): Promise<void> {
  const outdir = join(home, "dist");
  for (const [file, text] of files) {
    await replaceFile(join(outdir, file), text);
  }
  const stale = filesBelow(outdir).filter((file) => BUILT.test(file) && !files.has(file));
  await Promise.all(stale.map((file) => rm(join(outdir, file))));
}

/** Servers may start from the files meanwhile: what is the same stays, and what is new appears whole. */
async function replaceFile(path: string, text: string): Promise<void> {
  const before = await readFile(path, "utf8").catch(() => undefined);
  if (before === text) {
    const now = new Date();
    await utimes(path, now, now);
    return;
  }
  const temporary = `${path}.${process.pid}`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(temporary, text);
  await rename(temporary, path);
}

/** Folder of the sources as the compiler sees it, so that declarations lie beside the modules. */
async function rootFolder(home: string): Promise<string> {
  const { compilerOptions }: { readonly compilerOptions: { readonly rootDir: string } } = JSON.parse(
    await readFile(join(home, "tsconfig.json"), "utf8"),
  );
  return compilerOptions.rootDir;
}
