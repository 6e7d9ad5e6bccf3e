/** Prints the SPDX document of a root file system: `node --import tsx tools/container/write-sbom.ts <folder>`. */
import process from "node:process";
import { packagesOf, spdxDocument } from "./sbom.ts";
import { NODE_VERSION } from "./steps.ts";

const [, , rootfs = ""] = process.argv;
const created = new Date(1000 * Number(process.env.SOURCE_DATE_EPOCH ?? Math.floor(Date.now() / 1000)));
process.stdout.write(
  `${JSON.stringify(spdxDocument("nereid", packagesOf(rootfs, NODE_VERSION), created), undefined, 1)}\n`,
);
