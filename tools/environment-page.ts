/**
 * Makes docs/environment.md from the tables of environment variables: `node --import tsx tools/environment-page.ts`. A test compares
 * the page with the tables, and the tables with what the code reads.
 */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { STORES_ENVIRONMENT } from "../object-stores/src/environment.ts";
import { SERVER_ENVIRONMENT } from "../server/src/core/environment.ts";

interface EnvironmentVariable {
  /** As users write it, or what holds without it. */
  readonly default: string;
  readonly meaning: string;
}

export interface EnvironmentTable {
  readonly package: string;
  /** Folders whose code reads these variables. */
  readonly folders: readonly string[];
  /** The module that declares them. */
  readonly module: string;
  readonly variables: Readonly<Record<string, EnvironmentVariable>>;
}

export const ENVIRONMENT_TABLES: readonly EnvironmentTable[] = [
  {
    package: "@nereid/server",
    folders: [
      "server/src",
      "server/kernels",
      "server/bin",
      "offline/src",
      "retrieval/src",
      "images/src",
      "onnx-tools/src",
      "perf/src",
    ],
    module: "server/src/core/environment.ts",
    variables: SERVER_ENVIRONMENT,
  },
  {
    package: "@nereid/object-stores",
    folders: ["object-stores/src"],
    module: "object-stores/src/environment.ts",
    variables: STORES_ENVIRONMENT,
  },
];

export const ENVIRONMENT_PAGE: string = fileURLToPath(new URL("../docs/environment.md", import.meta.url));

const HEAD = `# Environment variables

Generated from code by \`tools/environment-page.ts\`. Do not edit.

Flags and \`config.pbtxt\` go before variables. An empty variable counts as not set, unless the table says otherwise.
Python models inherit the server's environment; an execution environment adds to \`PATH\` and \`LD_LIBRARY_PATH\` and sets
\`CONDA_PREFIX\`. The address of a vector store may be \`env:NAME\`: it is then read from the variable of that name.
`;

export function environmentPage(tables: readonly EnvironmentTable[]): string {
  const sections = tables.map(({ package: name, module, variables }) => {
    const rows = Object.entries(variables)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([variable, { default: fallback, meaning }]) => `| \`${variable}\` | ${fallback} | ${meaning} |`);
    const head = `\n## ${name}\n\nDeclared in \`${module}\`.\n\n| variable | default | meaning |\n| --- | --- | --- |\n`;
    return `${head}${rows.join("\n")}\n`;
  });
  return `${HEAD}${sections.join("")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(ENVIRONMENT_PAGE, environmentPage(ENVIRONMENT_TABLES));
}
