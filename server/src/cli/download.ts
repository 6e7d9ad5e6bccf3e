/** `nereid download`: a model from the Hugging Face hub, with the flags of the hub's own download command. */
import { homedir } from "node:os";
import process from "node:process";
import { formatBytes } from "../files/progress-text.ts";
import { type DownloadResult, download } from "../hub/download.ts";
import { expectRevision, parseRepoName } from "../hub/names.ts";
import { hubSettings } from "../hub/settings.ts";
import { type CommandSyntax, type FlagTable, UsageError } from "./arguments.ts";
import { runCommand } from "./run-command.ts";

const DEFAULT_WORKERS = 8;

const FLAGS = {
  "local-dir": {
    type: "string",
    short: "o",
    aliases: ["output-dir"],
    value: "DIR",
    summary: "put the files into this plain folder; without it they go to the cache that the hub's tools share",
  },
  revision: { type: "string", value: "NAME", summary: "a branch, a tag or a commit", default: "main" },
  include: {
    type: "string",
    many: "list",
    value: "PATTERN",
    summary: "only files that match one of the patterns, such as *.safetensors",
  },
  exclude: { type: "string", many: "list", value: "PATTERN", summary: "no file that matches one of the patterns" },
  "serving-only": {
    type: "switch",
    summary: "skip duplicate weights in formats that are not served",
  },
  "cache-dir": { type: "string", value: "DIR", summary: "the cache, instead of HF_HUB_CACHE or HF_HOME" },
  token: { type: "string", value: "TOKEN", summary: "instead of HF_TOKEN; others on this machine can see it" },
  "max-workers": {
    type: "integer",
    min: 1,
    max: 64,
    summary: "files fetched at the same time",
    default: DEFAULT_WORKERS,
  },
  "repo-type": { type: "string", choices: ["model", "dataset"], summary: "what is fetched", default: "model" },
  offline: { type: "switch", summary: "use what is there and no network; also by HF_HUB_OFFLINE=1" },
  verify: { type: "switch", summary: "check every byte of what is there already" },
  "dry-run": { type: "switch", summary: "list the files and what would be fetched" },
  "force-download": { type: "switch", hidden: true, summary: "files are checked, which is as good" },
  "resume-download": {
    type: "switch",
    hidden: true,
    hasNoEffect: true,
    summary: "downloads always go on where they stopped",
  },
  "local-dir-use-symlinks": { type: "string", hidden: true, hasNoEffect: true, summary: "a plain folder has no links" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "download",
  description:
    "Fetches a repository from the Hugging Face hub, or from a mirror named by HF_ENDPOINT. Resumes an earlier run; files appear only when all of them have been fetched and checked.",
  flags: FLAGS,
  positionals: [
    { name: "org/model", summary: "the repository's name, optionally with @revision" },
    { name: "file", summary: "names or patterns of the files that are wanted", optional: true, many: true },
  ],
  examples: [
    "nereid download openai-community/gpt2 --local-dir models/gpt2 --serving-only",
    "HF_TOKEN=... nereid download meta-llama/Llama-3.1-8B-Instruct --exclude 'original/*'",
  ],
};

export async function downloadCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, given, positionals, reporter, signal }) => {
    const [name = "", ...files] = positionals;
    const settings = hubSettings(process.env, homedir());
    const { repo, revision } = parseRepoName(name, values["repo-type"], settings.endpoint);
    if (revision !== undefined && given.has("revision")) throw new UsageError("the revision is named twice");
    expectRevision(values.revision);
    const result = await download({
      repo,
      revision: revision ?? values.revision,
      filter: {
        include: [...files, ...values.include],
        exclude: values.exclude,
        servingOnly: values["serving-only"],
      },
      settings: {
        ...settings,
        token: values.token ?? settings.token,
        cacheFolder: values["cache-dir"] ?? settings.cacheFolder,
        isOffline: values.offline || settings.isOffline,
      },
      localFolder: values["local-dir"],
      numWorkers: values["max-workers"],
      verify: values.verify || values["force-download"],
      dryRun: values["dry-run"],
      reporter,
      signal,
    });
    reporter.result(values["dry-run"] ? listText(result) : result.path, fieldsOf(result));
  });
}

function listText({ files, fetched, path }: DownloadResult): string {
  const missing = new Set(fetched);
  const rows = files.map(
    (file) => `${missing.has(file) ? "fetch" : "there"}  ${formatBytes(file.bytes).padStart(10)}  ${file.path}`,
  );
  const bytes = fetched.reduce((total, file) => total + file.bytes, 0);
  return [
    ...rows,
    `${fetched.length} of ${files.length} files, ${formatBytes(bytes)}, would be fetched to ${path}`,
  ].join("\n");
}

function fieldsOf({ path, commit, files, fetched }: DownloadResult): Record<string, unknown> {
  const bytes = fetched.reduce((total, file) => total + file.bytes, 0);
  const names = files.map((file) => ({ path: file.path, bytes: file.bytes, [file.hash.kind]: file.hash.hex }));
  return { path, commit: commit ?? null, fetched_files: fetched.length, fetched_bytes: bytes, files: names };
}
