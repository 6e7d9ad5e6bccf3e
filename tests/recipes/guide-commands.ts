/**
 * Commands out of guides that users of TensorRT-LLM wrote, with the lines that differ here rewritten, and nothing else.
 * The guides are not part of this repository. docs/commands/shims.md holds the same list for people.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const GUIDES = fileURLToPath(new URL("../../../shared/seeds/", import.meta.url));

/** Why the test cannot run; undefined: it can. */
export const guidesReason: string | undefined = existsSync(GUIDES) ? undefined : `no guides at ${GUIDES}`;

/** Fenced blocks of the guide that contains a text, in order, indentation of the fence removed. */
export function guideBlocks(containing: string): readonly string[] {
  const texts = readdirSync(GUIDES).map((name) => readFileSync(join(GUIDES, name), "utf8"));
  const found = texts.filter((text) => text.includes(containing));
  if (found.length !== 1) throw new Error(`expected one guide with '${containing}', got ${found.length}`);
  return [...(found[0] ?? "").matchAll(/^```[ \w]*\n(.*?)^\s*```/gms)].map(([, block = ""]) => block);
}

/** A line of the guide about one command that it gives in its text. */
export function guideLine(pattern: RegExp): string {
  const texts = readdirSync(GUIDES).map((name) => readFileSync(join(GUIDES, name), "utf8"));
  const [line] = texts.flatMap((text) => text.split("\n").filter((each) => pattern.test(each)));
  if (line === undefined) throw new Error(`no guide has a line ${pattern}`);
  return line;
}

export function blockWith(blocks: readonly string[], text: string): string {
  const found = blocks.find((block) => block.includes(text));
  if (found === undefined) throw new Error(`no block has '${text}'`);
  return found;
}

/** Lines that differ: see the table of docs/commands/shims.md. */
export function rewriteForShims(block: string, shims: string): string {
  const joined = block.replace(/^(?:sudo )?docker run\b(?:.*\\\n)*.*$/gm, wordsOfContainer);
  return joined
    .split("\n")
    .filter((line) => !/^(?:apt-get|pip3?|docker|sudo) /.test(line))
    .map((line) => line.replace(/^git clone .*\/(\S+)\.git$/, `cp -r ${shims}/$1 .`))
    .join("\n");
}

/** The command behind the image's name; nothing for a container that is entered by hand. */
function wordsOfContainer(command: string): string {
  return /\btritonserver --.*$/s.exec(command)?.[0] ?? "";
}

/** Each text of the map replaced: paths, ports and names of models. */
export function withPaths(text: string, paths: Readonly<Record<string, string>>): string {
  return Object.entries(paths).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}
