/** Judges references of Markdown pages against the files of the repository. Reads no file. */
import { posix } from "node:path";
import { anchorsOf, referencesIn } from "./markdown-links.ts";

export interface Repository {
  /** Paths from the root, with slashes: files under version control. */
  readonly files: ReadonlySet<string>;
  /** Markdown pages among them. */
  readonly pages: ReadonlyMap<string, string>;
}

/** Paths in prose may leave these out. */
const SHORT_FOR = ["server/src/", "server/", "server/kernels/"] as const;
const IS_ELSEWHERE = /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i;
/** Results of builds and runs are not under version control. */
const IS_MADE = /(^|\/)(dist|node_modules|build|\.cache)(\/|$)/;
const IS_PATH = /^[\w.@*-]+(\/[\w.@*-]+)*\/?$/;
const IS_SOURCE = /\.(ts|cu|cuh|py)$/;

/** One text for each reference to something that is not there. */
export function linkProblems(repository: Repository): readonly string[] {
  const folders = foldersOf(repository.files);
  const tops = new Set([...folders].filter((folder) => !folder.includes("/")));
  return [...repository.pages].flatMap(([page, text]) =>
    referencesIn(text).flatMap(({ line, kind, target }) => {
      const problem =
        kind === "link"
          ? linkProblem(page, target, repository, folders)
          : pathProblem(page, target, repository.files, folders, tops);
      return problem === undefined ? [] : [`${page}:${line}: ${problem}`];
    }),
  );
}

function linkProblem(page: string, target: string, repository: Repository, folders: ReadonlySet<string>) {
  if (IS_ELSEWHERE.test(target)) return undefined;
  const [path = "", anchor] = decodeURI(target).split("#");
  const file = path === "" ? page : posix.normalize(posix.join(posix.dirname(page), path)).replace(/\/$/, "");
  if (!repository.files.has(file) && !folders.has(file) && file !== ".") return `the link ${target} leads to no file`;
  if (anchor === undefined || anchor === "") return undefined;
  const text = repository.pages.get(file);
  if (text === undefined || anchorsOf(text).has(anchor)) return undefined;
  return `the link ${target} names no heading of ${file}`;
}

function pathProblem(
  page: string,
  target: string,
  files: ReadonlySet<string>,
  folders: ReadonlySet<string>,
  tops: ReadonlySet<string>,
): string | undefined {
  if (!IS_PATH.test(target) || !target.includes("/") || IS_MADE.test(target)) return undefined;
  const path = target.replace(/\/$/, "");
  const [first = ""] = path.split("/");
  const isWhole = tops.has(first);
  const isShort = IS_SOURCE.test(path) && SHORT_FOR.some((start) => folders.has(start + first));
  if (!isWhole && !isShort) return undefined;
  const starts = ["", posix.join(posix.dirname(page), "/"), ...(isShort ? SHORT_FOR : [])];
  const candidates = starts.map((start) => start + path);
  return candidates.some((one) => exists(one, files, folders)) ? undefined : `the path ${target} is not there`;
}

/** A star stands for any part of one name. */
function exists(path: string, files: ReadonlySet<string>, folders: ReadonlySet<string>): boolean {
  if (!path.includes("*")) return files.has(path) || folders.has(path);
  const escaped = path
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replace(/\*+/g, (stars) => (stars.length > 1 ? ".*" : "[^/]*"));
  const pattern = new RegExp(`^${escaped}$`);
  return [...files, ...folders].some((one) => pattern.test(one));
}

function foldersOf(files: ReadonlySet<string>): ReadonlySet<string> {
  const folders = new Set<string>();
  for (const file of files) {
    for (let folder = posix.dirname(file); folder !== "."; folder = posix.dirname(folder)) folders.add(folder);
  }
  return folders;
}
