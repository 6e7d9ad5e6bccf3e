/** Reads what launchers of several processes tell every rank but the first. Pure. */
import type { Environment } from "../core/environment.ts";

export interface OtherRank {
  readonly rank: number;
  readonly worldSize: number;
  readonly address: string;
  readonly port: number;
  /** GPU of this process. */
  readonly ordinal: number;
  readonly timeoutMs: number;
}

const DEFAULT_TIMEOUT_S = 300;

/** Undefined: this process serves. */
export function otherRank(environment: Environment): OtherRank | undefined {
  const { RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, NEREID_RANK_TIMEOUT_S } = environment;
  const [rank, worldSize, port] = [Number(RANK ?? 0), Number(WORLD_SIZE ?? 1), Number(MASTER_PORT ?? 0)];
  if (!(rank > 0) || !(worldSize > 1) || MASTER_ADDR === undefined) return undefined;
  const timeoutMs = 1000 * Number(NEREID_RANK_TIMEOUT_S ?? DEFAULT_TIMEOUT_S);
  return { rank, worldSize, address: MASTER_ADDR, port, ordinal: Number(LOCAL_RANK ?? 0), timeoutMs };
}
