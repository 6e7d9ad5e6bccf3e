/**
 * The rules that dependencies keep: an allowed licence, nothing of NVIDIA's, no code at install time, an exact version and a
 * line in docs/dependencies.md. Decides on data given; reads no file.
 */
import { ALLOWED_LICENSES, isAllowedLicense } from "./spdx.ts";

export interface LockedPackage {
  readonly version?: string;
  readonly license?: string;
  readonly link?: boolean;
  /** Only development needs it. */
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
}

/** The `packages` of a package-lock.json: by the folder of each package. */
export type LockedPackages = Readonly<Record<string, LockedPackage>>;

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** Packages whose JavaScript goes into ours when packed, so that users never install them, nor run their scripts. */
export const BUNDLED_PACKAGES: readonly string[] = ["koffi"];
/** Scope of our own packages. */
export const OWN_SCOPE = "@nereid/";

/** Native libraries in packages of their own, which their users may replace: all that the LGPL asks beyond its notice. */
const REPLACEABLE_LIBRARY = /^@img\/sharp-/;
const REPLACEABLE_LICENSES: ReadonlySet<string> = new Set([...ALLOWED_LICENSES, "LGPL-3.0-or-later"]);

/** Tools that users never get, used as they are: the MPL asks nothing of what they make (MPL 2.0, 3.2 and 3.3). */
const DEVELOPMENT_LICENSES: ReadonlySet<string> = new Set([...ALLOWED_LICENSES, "MPL-2.0"]);

const PROPRIETARY = /(?:^|[@/_-])(?:nvidia|cuda|cudnn|cublas|tensorrt|nccl)/i;
const FOLDER = "node_modules/";
const EXACT_VERSION = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/;
const LINE = /^\| `([^`]+)` +\|(.+)$/gm;
/** Columns of a line: purpose, alternatives, and how to leave it. */
const COLUMNS = 3;

/** Packages of others, by folder; `installed` tells the licence of a folder when the lock does not. */
export function licenseProblems(packages: LockedPackages, installed: (folder: string) => string | undefined): string[] {
  const foreign = foreignPackages(packages);
  if (foreign.length === 0) return ["package-lock.json lists no dependency: the check itself is broken"];
  const problems: string[] = [];
  for (const [folder, { license, dev }] of foreign) {
    const found = installed(folder) ?? license;
    const usual = dev === true ? DEVELOPMENT_LICENSES : ALLOWED_LICENSES;
    const allowed = REPLACEABLE_LIBRARY.test(nameOf(folder)) ? REPLACEABLE_LICENSES : usual;
    if (found === undefined || !isAllowedLicense(found, allowed)) {
      problems.push(
        `${folder}: expected an allowed licence, got ${found ?? "none"}; see ALLOWED_LICENSES in tools/spdx.ts`,
      );
    } else if (license !== undefined && license !== found) {
      problems.push(`${folder}: package-lock.json says ${license}, the installed package ${found}`);
    }
  }
  return problems;
}

/** Packages that users must not get with ours: NVIDIA's, and code that runs at install time. */
export function shippedProblems(packages: LockedPackages): string[] {
  const shipped = foreignPackages(packages).filter(([, { dev }]) => dev !== true);
  if (shipped.length === 0) return ["no dependency is shipped: the check itself is broken"];
  return shipped.flatMap(([folder, { hasInstallScript }]) => {
    const name = nameOf(folder);
    const problems: string[] = [];
    if (isProprietary(name)) problems.push(`${folder}: NVIDIA's software must not be in the tree that users install`);
    if (hasInstallScript === true && !BUNDLED_PACKAGES.includes(name)) {
      problems.push(`${folder}: runs a script when users install it; bundle it or do without it`);
    }
    return problems;
  });
}

export function isProprietary(name: string): boolean {
  return PROPRIETARY.test(name);
}

/** Manifests without a licence, versions that are not exact, and differences between manifests and the document. */
export function documentProblems(manifests: readonly Manifest[], document: string): string[] {
  const problems = manifests.flatMap(manifestProblems);
  const names = manifests.flatMap(dependenciesOf).map(([name]) => name);
  const own = new Set(manifests.map(({ name }) => name));
  const declared = new Set(names.filter((name) => !own.has(name) && !name.startsWith(OWN_SCOPE)));
  if (declared.size === 0) problems.push("no package.json names a dependency: the check itself is broken");
  const documented = documentedNames(document, problems);
  for (const name of declared) if (!documented.has(name)) problems.push(`${name}: has no line in docs/dependencies.md`);
  for (const name of documented) {
    if (!declared.has(name)) problems.push(`${name}: is no dependency, but has a line in docs/dependencies.md`);
  }
  return problems;
}

function manifestProblems(manifest: Manifest): string[] {
  const { name, license } = manifest;
  const open = dependenciesOf(manifest).filter(([, version]) => !EXACT_VERSION.test(version));
  const problems = open.map(([dependency, version]) => `${name}: ${dependency} ${version} is not an exact version`);
  if (license === undefined || !isAllowedLicense(license)) {
    problems.push(`${name}: its package.json names no allowed licence`);
  }
  return problems;
}

function documentedNames(document: string, problems: string[]): Set<string> {
  const names = new Set<string>();
  for (const [, name = "", rest = ""] of document.matchAll(LINE)) {
    const filled = rest.split("|").filter((cell) => cell.trim() !== "");
    if (filled.length !== COLUMNS)
      problems.push(`${name}: its line in docs/dependencies.md needs ${COLUMNS} filled columns`);
    names.add(name);
  }
  return names;
}

function dependenciesOf(manifest: Manifest): [string, string][] {
  const { dependencies, optionalDependencies, peerDependencies, devDependencies } = manifest;
  return [dependencies, optionalDependencies, peerDependencies, devDependencies].flatMap((group) =>
    Object.entries(group ?? {}),
  );
}

function foreignPackages(packages: LockedPackages): [string, LockedPackage][] {
  return Object.entries(packages).filter(([folder, { link }]) => folder.includes(FOLDER) && link !== true);
}

function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf(FOLDER) + FOLDER.length);
}
