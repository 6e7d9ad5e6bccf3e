/**
 * The program as one of several ranks whose leader is another process: it serves nobody, loads its share of what the leader
 * serves and does the leader's steps. Each leader is followed by a process of its own, for a GPU that waits for one that is gone
 * is only freed by the end of its process.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { inheritedFlags } from "../child-process/inherited-flags.ts";
import type { Environment } from "../core/environment.ts";
import { follow } from "../engine/ranks/follow.ts";
import { findLeader } from "../engine/ranks/network-leader.ts";
import type { OtherRank } from "./other-rank.ts";

/** Set for the process that follows. */
const FOLLOWS = "NEREID_RANK_FOLLOWS" satisfies keyof Environment;
/** Nobody leads, or the leader does not want this rank: trying again is no use. */
export const EXIT_NO_LEADER = 3;
const EXIT_FAILED = 70;
const PAUSE_MS = 1000;

/** Comes back with an exit code when no leader comes any more. */
export async function runRank(rank: OtherRank): Promise<number> {
  return process.env[FOLLOWS] === "1" ? followLeader(rank) : followLeaders(startFollowing, () => sleep(PAUSE_MS));
}

/** Follows one leader after the other. `start` gives the exit code of what followed one. */
export async function followLeaders(start: () => Promise<number>, pause: () => Promise<unknown>): Promise<number> {
  for (;;) {
    const code = await start();
    if (code === EXIT_NO_LEADER) return 1;
    await pause();
  }
}

async function startFollowing(): Promise<number> {
  const env = { ...process.env, [FOLLOWS]: "1" };
  const child = spawn(process.execPath, [...inheritedFlags(process.execArgv), ...process.argv.slice(1)], {
    stdio: "inherit",
    env,
  });
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  const [code] = (await once(child, "exit")) as [number | null];
  process.off("exit", end);
  return code ?? EXIT_FAILED;
}

async function followLeader({ rank, worldSize, ordinal, ...network }: OtherRank): Promise<number> {
  const tell = (text: string): void => void process.stdout.write(`rank ${rank} of ${worldSize}: ${text}\n`);
  tell(`looking for a leader at ${network.address}:${network.port}`);
  const leader = await findLeader(network, rank, worldSize).catch((error: unknown) => {
    tell(textOf(error));
    return undefined;
  });
  if (leader === undefined) return EXIT_NO_LEADER;
  const { task, port } = leader;
  tell(`follows, with GPU ${ordinal} and ${task.options.modelDir}`);
  void leader.lost.then(() => {
    tell("the leader is gone");
    process.kill(process.pid, "SIGKILL");
  });
  try {
    await follow({ ...task, options: { ...task.options, ordinal } }, port);
    leader.close();
    return 0;
  } catch (error) {
    tell(textOf(error));
    await leader.fail(textOf(error));
    return EXIT_FAILED;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
