/** `nereid doctor`: why a model repository will not load, with file, line and fix. */
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { machineGpuLines } from "../build/machine-gpus.ts";
import { type Diagnosis, diagnose } from "../repository/check/doctor.ts";
import { findingText } from "../repository/check/finding.ts";

const FLAGS = {
  "model-repository": {
    type: "string",
    many: "repeated",
    value: "DIR",
    summary: "a repository, as in the server's flag",
    aliases: ["model-store", "model-repo"],
  },
  all: { type: "switch", short: "a", summary: "also show notes: settings without effect here" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "doctor",
  description:
    "Examines model repositories as the server would load them and explains what will not load: file, line, and the fix. Serves nothing. Ends with 1 when a model will not load.",
  flags: FLAGS,
  positionals: [
    { name: "repository", summary: "a folder that holds a folder for each model", optional: true, many: true },
  ],
  examples: ["nereid doctor models"],
};

export async function doctorCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter, signal }) => {
    const paths = [...positionals, ...values["model-repository"]];
    if (paths.length === 0) throw new UsageError("<repository> is missing: which folder to examine");
    const diagnosis = await diagnose(paths, reporter, signal);
    const hasErrors = diagnosis.findings.some(({ severity }) => severity === "error");
    if (hasErrors) process.exitCode = 1;
    const shown = new Set(["error", ...(values.quiet ? [] : ["warning"]), ...(values.all ? ["note"] : [])]);
    const gpus = values.quiet ? [] : machineGpuLines();
    reporter.result([...gpus, textOf(diagnosis, shown)].join("\n"), { ...fieldsOf(diagnosis), gpus });
  });
}

function textOf({ findings, models }: Diagnosis, severities: ReadonlySet<string>): string {
  const shown = findings.filter(({ severity }) => severities.has(severity)).map(findingText);
  const broken = models.filter(({ isLoadable }) => !isLoadable).map(({ name }) => name);
  const good = models.length - broken.length;
  const summary = `${models.length} models: ${good} will load${broken.length === 0 ? "" : `, ${broken.length} will not: ${broken.join(", ")}`}`;
  return [...shown, summary].join("\n");
}

function fieldsOf({ findings, models }: Diagnosis): Record<string, unknown> {
  return {
    models: models.map(({ name, path, isLoadable }) => ({ name, path, loads: isLoadable })),
    findings: findings.map(({ line, ...finding }) => ({ ...finding, line: line ?? null })),
  };
}
