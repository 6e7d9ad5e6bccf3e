/** The usage text of the server's command line. */
import { FLAG_GROUPS, FLAGS } from "./flag-table.ts";
import type { ServerFlag } from "./server-flag.ts";

const WIDTH = 60;

export function usageText(): string {
  const groups = FLAG_GROUPS.map(({ title, flags }) => {
    const lines = flags.map(flagText).join("");
    return title === "" ? lines : `\n${title}:\n${lines}`;
  });
  return `Usage: tritonserver [options]\n${groups.join("")}`;
}

/** The usage text of one flag. */
export function flagUsage(name: string): string {
  const flag = FLAGS.find((each) => each.name === name);
  return flag === undefined ? "" : flagText(flag).trimEnd();
}

function flagText(flag: ServerFlag): string {
  const value = flag.value === undefined ? "" : ` ${flag.value}`;
  return `  --${flag.name}${value}\n${wrapped(flag.description)}\n`;
}

/** Wraps text to `WIDTH` characters, each line after a tab; a longer word has its own line. */
function wrapped(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.map((line) => `\t${line}`).join("\n");
}
