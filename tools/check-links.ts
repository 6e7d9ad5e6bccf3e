/** Fails when a Markdown page names a file, folder or heading that is not there: see link-rules.ts. Knows files from Git. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { linkProblems } from "./link-rules.ts";

const list = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
  encoding: "utf8",
});
const files = new Set(list.split("\0").filter((path) => path !== "" && existsSync(path)));
const pages = new Map(
  [...files].filter((path) => path.endsWith(".md")).map((path) => [path, readFileSync(path, "utf8")]),
);
const problems = pages.size === 0 ? ["no pages found: the check itself is broken"] : linkProblems({ files, pages });
for (const problem of problems) process.stderr.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
