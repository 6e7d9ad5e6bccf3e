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

/** A block of a guide as it stands, and the guide's first line, which names it. */
interface Block {
  readonly guide: string;
  readonly text: string;
}

/** Words with which the shell commands of the guides begin; other blocks are listings, logs, programs and configurations. */
const COMMAND =
  /^(?:apt-get|cat|cd|cp|curl|docker|export|git|huggingface-cli|mkdir|pip3?|python3|rm|sed|sudo|tritonserver|trtllm-build|[A-Z_]+=)/;

/** All guides, and which of their blocks a test has taken. */
export class GuideBook {
  readonly #texts = readdirSync(GUIDES).map((name) => readFileSync(join(GUIDES, name), "utf8"));
  readonly #taken = new Set<string>();

  get numGuides(): number {
    return this.#texts.length;
  }

  /** The guide that contains a text; `rewrite` is applied to each block that is taken. @throws Error unless there is one */
  guide(containing: string, rewrite: (block: string) => string = (block) => block): Guide {
    const found = this.#texts.filter((text) => text.includes(containing));
    if (found.length !== 1) throw new Error(`expected one guide with '${containing}', got ${found.length}`);
    return new Guide(found[0] ?? "", rewrite, (block) => this.#taken.add(block));
  }

  /** Shell commands that no test has taken and that are no difference of docs/commands/shims.md, one line each. */
  untaken(): readonly string[] {
    return this.#shellBlocks()
      .filter(({ text }) => !this.#taken.has(text))
      .flatMap(({ guide, text }) =>
        commandsOf(rewriteForShims(text, "shims")).map((command) => `${guide}: ${command}`),
      );
  }

  /** How many shell commands the guides have, lines that differ included. */
  numCommands(): number {
    return this.#shellBlocks().flatMap(({ text }) => commandsOf(text)).length;
  }

  #shellBlocks(): readonly Block[] {
    return this.#texts
      .flatMap((text) => blocksOf(text).map((block) => ({ guide: text.trim().split("\n", 1)[0] ?? "", text: block })))
      .filter(({ text }) => COMMAND.test(text.trimStart()));
  }
}

export class Guide {
  readonly #text: string;
  readonly #rewrite: (block: string) => string;
  readonly #take: (block: string) => void;

  constructor(text: string, rewrite: (block: string) => string, take: (block: string) => void) {
    this.#text = text;
    this.#rewrite = rewrite;
    this.#take = take;
  }

  /** The first block with a text, rewritten. @throws Error when none has it */
  block(containing: string): string {
    const found = blocksOf(this.#text).find((block) => block.includes(containing));
    if (found === undefined) throw new Error(`no block has '${containing}'`);
    return this.#taken(found);
  }

  /** All blocks that the pattern finds, in order, rewritten. */
  blocks(pattern: RegExp): readonly string[] {
    return blocksOf(this.#text)
      .filter((block) => pattern.test(block))
      .map((block) => this.#taken(block));
  }

  /** A command that the prose names. @throws Error when it does not */
  words(pattern: RegExp): string {
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) throw new Error(`the guide has no ${pattern}`);
    return this.#rewrite(found);
  }

  #taken(block: string): string {
    this.#take(block);
    return this.#rewrite(block);
  }
}

/** Fenced blocks, indentation of the fence removed. */
function blocksOf(text: string): readonly string[] {
  return [...text.matchAll(/^```[ \w]*\n(.*?)^\s*```/gms)].map(([, block = ""]) => block);
}

/** One line for each command: continued lines are joined, comments and documents within are left out. */
function commandsOf(block: string): readonly string[] {
  return block
    .replace(/<<'(\w+)'(.*?)^\1$/gms, "")
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => COMMAND.test(line));
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
