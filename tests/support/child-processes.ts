/** The processes that a server has started, as Linux lists them. */
import { readFile } from "node:fs/promises";

/** Children of a process whose command line contains the text. */
export async function childrenOf(pid: number, commandPart: string): Promise<number[]> {
  const list = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const pids = list.split(" ").filter(Boolean).map(Number);
  const commands = await Promise.all(pids.map(commandOf));
  return pids.filter((_, i) => commands[i]?.includes(commandPart) ?? false);
}

/** True while there is such a process that has not ended. */
export async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/\) Z /.test(stat);
}

async function commandOf(pid: number): Promise<string> {
  const bytes = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return bytes.replaceAll("\0", " ");
}
