/** From a package.json of the workspace to the one that users get. Decides on data given; touches no file. */
import { type ConditionalFiles, type PackageExports, SOURCE_CONDITION } from "../bundle/workspace-modules.ts";
import { BUNDLED_PACKAGES, type Manifest, OWN_SCOPE } from "../dependency-rules.ts";

/** A package.json as far as packing looks at it; all other keys pass through. */
export interface WorkspaceManifest extends Manifest {
  readonly exports?: PackageExports;
  readonly files?: readonly string[];
  readonly bin?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional: boolean }>>;
}

const NOTICES: readonly string[] = ["LICENSE", "NOTICE"];
/** Platforms for which ONNX Runtime, koffi and the server all have a library. */
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

/**
 * The server's: bundled packages leave, the packages of their native parts come. ONNX Runtime is as large as all else
 * together, so it is an optional peer: npm checks its version and does not install it.
 */
export function publishedServerManifest(manifest: WorkspaceManifest): WorkspaceManifest {
  const dependencies = Object.entries(manifest.dependencies ?? {});
  const runtimes = onnxRuntimePackages(manifest.version);
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
    peerDependencies: { ...manifest.peerDependencies, ...runtimes },
    peerDependenciesMeta: {
      ...manifest.peerDependenciesMeta,
      ...Object.fromEntries(Object.keys(runtimes).map((name) => [name, { optional: true }])),
    },
  });
}

/** Manifest of the package with everything: npm installs the runtime of the user's platform and skips the others. */
export function publishedUmbrellaManifest(manifest: WorkspaceManifest): WorkspaceManifest {
  return publishedManifest({
    ...manifest,
    optionalDependencies: { ...manifest.optionalDependencies, ...onnxRuntimePackages(manifest.version) },
  });
}

function onnxRuntimePackages(version: string): Readonly<Record<string, string>> {
  return Object.fromEntries(PLATFORMS.map((platform) => [onnxRuntimePackage(platform), version]));
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
      typeof targets === "string" ? targets : publishedTargets(targets, path.includes("*")),
    ]),
  );
}

/** Modules behind a pattern are for our own packages: they ship without types. */
function publishedTargets(targets: ConditionalFiles, isPattern: boolean): ConditionalFiles {
  const dropped = isPattern ? [SOURCE_CONDITION, "types"] : [SOURCE_CONDITION];
  return Object.fromEntries(Object.entries(targets).filter(([condition]) => !dropped.includes(condition)));
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}
