/**
 * The program as one of several ranks whose leader is another process: it serves nobody, loads its share of what the leader
 * serves and does the leader's steps. When the leader goes it waits for the next one.
 */
import process from "node:process";
import type { OtherRank } from "./cli/other-rank.ts";
import { follow } from "./engine/ranks/follow.ts";
import { findLeader } from "./engine/ranks/network-leader.ts";
import { CudaError } from "./native/cuda.ts";

const EXIT_FAILED = 70;
/** For a last step, and to leave the group. */
const LAST_STEP_MS = 15_000;

/** A GPU waits for ever for one that is gone: then only the end of the process helps. */
function endWithLeader(ended: Promise<void>, tell: (text: string) => void): Disposable {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  void ended.then(() => {
    if (isOver) return;
    timer = setTimeout(() => {
      tell("the leader went away in the middle of a step");
      process.exit(EXIT_FAILED);
    }, LAST_STEP_MS);
  });
  return {
    [Symbol.dispose]: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

/** Comes back when no leader comes any more; a GPU that fails ends the process, for nothing works in it any more. */
export async function followLeaders({ rank, worldSize, ordinal, ...network }: OtherRank): Promise<void> {
  const tell = (text: string): void => void process.stdout.write(`rank ${rank} of ${worldSize}: ${text}\n`);
  for (;;) {
    tell(`looking for a leader at ${network.address}:${network.port}`);
    const leader = await findLeader(network, rank, worldSize);
    tell(`follows, with GPU ${ordinal} and ${leader.task.options.modelDir}`);
    const hangs = endWithLeader(leader.ended, tell);
    try {
      await follow({ ...leader.task, options: { ...leader.task.options, ordinal } }, leader.port);
      leader.close();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      tell(why);
      await leader.fail(why);
      if (error instanceof CudaError) process.exit(EXIT_FAILED);
    } finally {
      hangs[Symbol.dispose]();
    }
  }
}
