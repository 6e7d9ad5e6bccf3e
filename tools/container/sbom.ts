/**
 * The software bill of materials of a root file system: Debian packages, npm packages and Node.js.
 * Source: SPDX 2.3, chapters 6 (document), 7 (packages) and 11 (relationships); purl for the references.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface SbomPackage {
  readonly kind: "deb" | "npm" | "generic";
  readonly name: string;
  readonly version: string;
  /** SPDX expression, if the package states one. */
  readonly license?: string | undefined;
}

/** `created` is the time of the build, in UTC. */
export function spdxDocument(name: string, packages: readonly SbomPackage[], created: Date): Record<string, unknown> {
  const sorted = [...packages].sort((a, b) => (purlOf(a) < purlOf(b) ? -1 : 1));
  const hash = createHash("sha256")
    .update(JSON.stringify([name, sorted]))
    .digest("hex");
  const entries = sorted.map((item) => ({
    item,
    id: `SPDXRef-${item.kind}-${idText(`${item.name}-${item.version}`)}`,
  }));
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name,
    documentNamespace: `https://nereid.invalid/sbom/${name}-${hash}`,
    creationInfo: { created: `${created.toISOString().slice(0, 19)}Z`, creators: ["Tool: nereid-write-sbom"] },
    packages: entries.map(({ item, id }) => ({
      SPDXID: id,
      name: item.name,
      versionInfo: item.version,
      downloadLocation: "NOASSERTION",
      filesAnalyzed: false,
      licenseConcluded: "NOASSERTION",
      licenseDeclared: isExpression(item.license) ? item.license : "NOASSERTION",
      copyrightText: "NOASSERTION",
      externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purlOf(item) }],
    })),
    relationships: entries.map(({ id }) => ({
      spdxElementId: "SPDXRef-DOCUMENT",
      relationshipType: "DESCRIBES",
      relatedSpdxElement: id,
    })),
  };
}

/** Packages below a root file system that `tools/container/steps.ts` made. */
export function packagesOf(rootfs: string, nodeVersion: string): readonly SbomPackage[] {
  const all: readonly SbomPackage[] = [
    ...debianPackages(join(rootfs, "var/lib/dpkg/status.d")),
    ...npmPackages(join(rootfs, "opt/nereid")),
    { kind: "generic", name: "nodejs", version: nodeVersion, license: "MIT" },
  ];
  return [...new Map(all.map((item) => [purlOf(item), item])).values()];
}

function debianPackages(folder: string): readonly SbomPackage[] {
  return readdirSync(folder).map((file) => {
    const fields = readFileSync(join(folder, file), "utf8");
    const field = (name: string): string => new RegExp(`^${name}: (.+)$`, "m").exec(fields)?.[1] ?? "";
    return { kind: "deb", name: field("Package"), version: field("Version") };
  });
}

function npmPackages(folder: string): readonly SbomPackage[] {
  const modules = join(folder, "node_modules");
  if (!existsSync(modules)) return [];
  const names = readdirSync(modules).flatMap((name) =>
    name.startsWith("@") ? readdirSync(join(modules, name)).map((part) => `${name}/${part}`) : [name],
  );
  return names.flatMap((name) => {
    const path = join(modules, name, "package.json");
    if (!existsSync(path)) return [];
    const { version, license } = JSON.parse(readFileSync(path, "utf8")) as { version: string; license?: string };
    return [{ kind: "npm" as const, name, version, license }, ...npmPackages(join(modules, name))];
  });
}

function purlOf({ kind, name, version }: SbomPackage): string {
  const encoded = name.replace(/^@/, "%40");
  return `pkg:${kind}/${kind === "deb" ? "debian/" : ""}${encoded}@${encodeURIComponent(version)}`;
}

function idText(text: string): string {
  return text.replace(/[^A-Za-z0-9.-]+/g, "-");
}

function isExpression(license: unknown): license is string {
  return typeof license === "string" && /^[A-Za-z0-9.+() -]+$/.test(license) && !/SEE LICENSE|UNLICENSED/.test(license);
}
