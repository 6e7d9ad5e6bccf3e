/** From a package.json of the workspace to the one that users get. Decides on data given; touches no file. */
import { BUNDLED_PACKAGES, type Manifest, OWN_SCOPE } from "../dependency-rules.ts";

/** By path inside the package, then by condition. */
type PackageExports = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** A package.json as far as packing looks at it; all other keys pass through. */
export interface WorkspaceManifest extends Manifest {
  readonly exports?: PackageExports;
  readonly files?: readonly string[];
}

/** Condition under which the workspace resolves to sources, which packages do not carry. */
const SOURCE_CONDITION = "nereid-source";
const NOTICES: readonly string[] = ["LICENSE", "NOTICE"];
/** Where ONNX Runtime, koffi and the server all have a library to offer. */
export const PLATFORMS: readonly Platform[] = [
  { os: "linux", cpu: "x64" },
  { os: "linux", cpu: "arm64" },
];

export interface Platform {
  readonly os: string;
  readonly cpu: string;
}

export function publishedManifest(manifest: WorkspaceManifest): WorkspaceManifest {
  const { devDependencies: _, ...kept } = manifest;
  return {
    ...kept,
    ...(manifest.exports === undefined ? {} : { exports: withoutSources(manifest.exports) }),
    files: [...(manifest.files ?? []), ...NOTICES],
  };
}

/** The server's: bundled packages are replaced by the packages of their native parts. */
export function publishedServerManifest(manifest: WorkspaceManifest): WorkspaceManifest {
  const dependencies = Object.entries(manifest.dependencies ?? {});
  return publishedManifest({
    ...manifest,
    ...{ os: unique(PLATFORMS.map(({ os }) => os)), cpu: unique(PLATFORMS.map(({ cpu }) => cpu)) },
    dependencies: Object.fromEntries(dependencies.filter(([name]) => !BUNDLED_PACKAGES.includes(name))),
    optionalDependencies: {
      ...manifest.optionalDependencies,
      ...Object.fromEntries(
        PLATFORMS.map((platform) => [`@koromix/koffi-${suffix(platform)}`, koffiVersion(manifest)]),
      ),
    },
  });
}

/** The umbrella's: it brings ONNX Runtime, which the server alone does without. */
export function publishedUmbrellaManifest(manifest: WorkspaceManifest): WorkspaceManifest {
  return publishedManifest({
    ...manifest,
    optionalDependencies: {
      ...manifest.optionalDependencies,
      ...Object.fromEntries(PLATFORMS.map((platform) => [onnxRuntimePackage(platform), manifest.version])),
    },
  });
}

export function onnxRuntimeManifest(
  platform: Platform,
  runtimeVersion: string,
  server: WorkspaceManifest,
): WorkspaceManifest & { readonly os: readonly string[] } {
  return {
    ...{ name: onnxRuntimePackage(platform), version: server.version },
    ...{ description: `ONNX Runtime ${runtimeVersion} of ${suffix(platform)} for ${server.name}` },
    license: "MIT",
    ...{ os: [platform.os], cpu: [platform.cpu], libc: ["glibc"], preferUnplugged: true },
    files: ["libonnxruntime.so.1", "LICENSE", "ThirdPartyNotices.txt"],
  };
}

export function onnxRuntimePackage(platform: Platform): string {
  return `${OWN_SCOPE}onnxruntime-${suffix(platform)}`;
}

function suffix({ os, cpu }: Platform): string {
  return `${os}-${cpu}`;
}

function koffiVersion({ name, dependencies }: WorkspaceManifest): string {
  const version = dependencies?.koffi;
  if (version === undefined)
    throw new Error(`${name}: expected koffi, whose native part it needs, among the dependencies`);
  return version;
}

function withoutSources(exports: PackageExports): PackageExports {
  return Object.fromEntries(
    Object.entries(exports).map(([path, targets]) => [
      path,
      Object.fromEntries(Object.entries(targets).filter(([condition]) => condition !== SOURCE_CONDITION)),
    ]),
  );
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}
