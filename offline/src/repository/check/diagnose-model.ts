/** As `nereid doctor`, for one model of a repository. The server's console asks. */
import { Reporter } from "@nereid/server/files/progress";
import { diagnose } from "./doctor.ts";
import type { Finding, Severity } from "./finding.ts";

export interface ModelFinding {
  readonly severity: Severity;
  readonly file: string;
  readonly line?: number;
  readonly problem: string;
  readonly fix: string;
}

/** Every model is examined, since models call each other. @throws ToolError when the repository is no folder */
export async function diagnoseModel(repositoryPath: string, model: string): Promise<readonly ModelFinding[]> {
  const reporter = new Reporter({ mode: "quiet", command: "doctor" });
  const { findings } = await diagnose([repositoryPath], reporter, new AbortController().signal);
  return findings.filter((finding) => finding.model === model).map(withoutModel);
}

function withoutModel({ severity, file, line, problem, fix }: Finding): ModelFinding {
  return { severity, file, problem, fix, ...(line === undefined ? {} : { line }) };
}
