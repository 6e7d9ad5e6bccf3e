/**
 * Runs one suite in namespaces of its own: an overlay over the root folder takes what it writes, its ports are on a loopback
 * device of its own, and all its processes end with the first one (namespaces(7), overlayfs).
 */
import { spawn } from "node:child_process";
import { mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { NO_START } from "./reasons.ts";
import {
  type CaseResult,
  type CaseRun,
  casesOf,
  firstError,
  parseRuns,
  scriptCases,
  scriptFailures,
} from "./results.ts";
import { SUITES } from "./suites.ts";

const HOOKS = fileURLToPath(new URL("python", import.meta.url));
/** The release whose name the folder of models gets. */
const VERSION = "26.06";
/** The version that the server tells; suites read it from a variable of NVIDIA's container. */
const SERVER_VERSION = "2.70.0";

/** The folder of the run, as the suite sees it. */
const TOLD = "/opt/nereid-qa";

/** Arguments: root, upper, work, tree, models, suite, the folder that the cases write to. Ends with the script's status. */
const SANDBOX = `
set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$2,workdir=$3" "$1"
mkdir -p "$1/opt" "$1/data/inferenceserver/${VERSION}" "$1/dev/shm"
cp -r "$4" "$1/opt/tritonserver"
mount --bind "$5" "$1/data/inferenceserver/${VERSION}"
mkdir -p "$1${TOLD}"
mount --bind "$7" "$1${TOLD}"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/dev/shm"
mount -t proc proc "$1/proc"
ip link set lo up
exec chroot "$1" /bin/bash -c "cd /opt/tritonserver/qa/$6 && exec bash ./test.sh ${VERSION}"
`;

export interface SuiteRun {
  readonly suite: string;
  readonly work: string;
  readonly tree: string;
  readonly models: string;
  readonly python: string;
  readonly timeoutMs: number;
}

/** Never rejects because a test fails: that is a result. Logs stay in WORK/runs/SUITE. */
export async function runSuite(run: SuiteRun): Promise<readonly CaseResult[]> {
  const folder = join(run.work, "runs", run.suite);
  await rm(folder, { recursive: true, force: true });
  for (const name of ["root", "upper", "work"]) await mkdir(join(folder, name), { recursive: true });
  const told = join(folder, "told");
  await mkdir(told);
  const runs = join(told, "runs.jsonl");
  await writeFile(runs, "");
  const status = await sandboxed(run, folder, told);
  const output = await readFile(join(folder, "output.log"), "utf8");
  return casesOf(run.suite, [...parseRuns(await readFile(runs, "utf8")), ...scriptRuns(run.suite, status, output)]);
}

/** The script as a whole, and each check of its own that it reports as failed. */
function scriptRuns(suite: string, status: string, output: string): readonly CaseRun[] {
  const checks =
    SUITES[suite]?.printsCases === true
      ? scriptCases(output)
      : scriptFailures(output).map((name): CaseRun => {
          const reason = NO_START.test(name) ? firstError(output, name) : name;
          return { file: "test.sh", name, outcome: "failed", reason };
        });
  const isPassed = status === "0";
  const whole: CaseRun = {
    file: "test.sh",
    name: "exit status 0",
    outcome: isPassed ? "passed" : "failed",
    reason: isPassed ? "" : status,
  };
  return [...checks, whole];
}

async function sandboxed(run: SuiteRun, folder: string, told: string): Promise<string> {
  const log = await open(join(folder, "output.log"), "w");
  const isRoot = process.getuid?.() === 0;
  const flags = [
    "--mount",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    ...(isRoot ? [] : ["--map-root-user"]),
  ];
  const paths = ["root", "upper", "work"].map((name) => join(folder, name));
  const bash = ["/bin/bash", "-c", SANDBOX, "sandbox", ...paths, run.tree, run.models, run.suite, told];
  const child = spawn("unshare", [...flags, ...bash], { env: environment(run), stdio: ["ignore", log.fd, log.fd] });
  const timer = setTimeout(() => child.kill("SIGKILL"), run.timeoutMs);
  try {
    return await new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) =>
        resolve(signal === null ? String(code) : `ended by ${signal} after ${run.timeoutMs / 1000} s`),
      );
    });
  } finally {
    clearTimeout(timer);
    await log.close();
  }
}

function environment(run: SuiteRun): NodeJS.ProcessEnv {
  const { PATH = "", HOME = "/root", LANG = "C.UTF-8" } = process.env;
  return {
    PATH: `/opt/tritonserver/shims:${dirname(run.python)}:${PATH}:/opt/tritonserver/bin`,
    HOME,
    LANG,
    PYTHONPATH: HOOKS,
    PYTHONDONTWRITEBYTECODE: "1",
    PYTEST_PLUGINS: "nereid_qa_pytest",
    NEREID_QA_RUNS: `${TOLD}/runs.jsonl`,
    NVIDIA_TRITON_SERVER_VERSION: VERSION,
    TRITON_SERVER_VERSION: SERVER_VERSION,
    TEST_SYSTEM_SHARED_MEMORY: "0",
    TEST_CUDA_SHARED_MEMORY: "0",
    TRITON_SERVER_CPU_ONLY: "1",
    ...SUITES[run.suite]?.env,
  };
}
