import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import type { RankNetwork } from "../engine-spec.ts";
import type { StepInput } from "../step-runner.ts";
import { followSteps, type RankTask } from "./follow.ts";
import { awaitRanks } from "./network-followers.ts";
import { findLeader } from "./network-leader.ts";
import { helloFrame, plainFrame, RANK_FRAMES, textFrame } from "./network-messages.ts";
import { frameStep } from "./step-frame.ts";

const LAYOUT = { numTensorRanks: 2, numStages: 1 };

function taskOf(rank: number): RankTask {
  const options = { modelDir: "/models/m", ordinal: 0, blockSize: 16, numBlocks: 4, maxTokens: 16, maxSequences: 2 };
  return { rank, layout: LAYOUT, options };
}

async function freeNetwork(timeoutMs = 10_000): Promise<RankNetwork> {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return { address: "127.0.0.1", port: typeof address === "object" ? (address?.port ?? 0) : 0, timeoutMs };
}

function stepOf(token: number): Int32Array {
  const ones = Int32Array.of(0);
  const input: StepInput = {
    tokenIds: Int32Array.of(token),
    positions: ones,
    slots: ones,
    sequences: [{ queryStart: 0, queryLength: 1, contextLength: 1, blockTable: ones }],
    logitRows: ones,
  };
  return frameStep(input, undefined, 16);
}

test("a rank in another process gets its task, joins, and does the steps that it is sent", async () => {
  const network = await freeNetwork();
  const leading = awaitRanks(network, 2, taskOf);
  const leader = await findLeader(network, 1, 2);
  assert.deepEqual(leader.task, taskOf(1));
  const [follower] = await leading;
  assert.ok(follower !== undefined);
  const { port } = leader;
  port.opened();
  await follower.opened;
  follower.join([Uint8Array.of(1, 200), Uint8Array.of(3)]);
  assert.deepEqual(await port.ids(), [Uint8Array.of(1, 200), Uint8Array.of(3)]);
  port.ready(4);
  await follower.ready;
  const seen: number[] = [];
  const steps = followSteps(
    {
      choose: undefined,
      run: async ({ tokenIds }) => {
        seen.push(...tokenIds);
        return new Float32Array();
      },
    },
    port,
  );
  for (const token of [5, 6, 7]) follower.send(stepOf(token));
  const closed = follower.close();
  await steps;
  leader.close();
  await closed;
  assert.deepEqual(seen, [5, 6, 7]);
});

test("a rank tells its leader why it cannot go on, and a leader notices when one is gone", async () => {
  const network = await freeNetwork();
  const leading = awaitRanks(network, 3, taskOf);
  const [one, two] = await Promise.all([findLeader(network, 1, 3), findLeader(network, 2, 3)]);
  const [first, second] = await leading;
  assert.deepEqual([first?.rank, second?.rank], [1, 2]);
  await one.fail("out of memory");
  await assert.rejects(first?.failed ?? Promise.resolve(), /rank 1: out of memory/);
  two.close();
  await assert.rejects(second?.failed ?? Promise.resolve(), /rank 2: its connection ended/);
  await Promise.all([first?.close(), second?.close()]);
});

test("awaitRanks() names the ranks that do not come, and where it cannot listen", async () => {
  const network = await freeNetwork(300);
  await assert.rejects(awaitRanks(network, 3, taskOf), /ranks 1, 2 of 3 did not connect within 0.3 s/);
  const holder = createServer();
  await once(holder.listen(network.port, "127.0.0.1"), "listening");
  await assert.rejects(awaitRanks(network, 2, taskOf), /MASTER_PORT \d+: cannot listen there: .*EADDRINUSE/);
  holder.close();
});

test("a leader refuses ranks that it does not expect", async () => {
  const network = await freeNetwork();
  const leading = awaitRanks(network, 2, taskOf);
  await assert.rejects(findLeader(network, 2, 2), /refuses rank 2: rank 2, expected 1 to 1/);
  await assert.rejects(findLeader(network, 1, 4), /refuses rank 1: WORLD_SIZE is 4, and 2 with the leader/);
  const stranger = connect(network.port, network.address);
  stranger.write("GET / HTTP/1.1\r\n\r\n");
  await once(stranger, "close");
  const twice = await findLeader(network, 1, 2);
  const [follower] = await leading;
  twice.close();
  await follower?.close();
});

test("a rank notices when its leader is gone, and not when it was told that nothing more comes", async () => {
  const network = await freeNetwork();
  for (const isTold of [false, true]) {
    const server = createServer((socket) => {
      socket.resume();
      socket.write(textFrame(RANK_FRAMES.task, JSON.stringify(taskOf(1))));
      if (isTold) socket.end(plainFrame(RANK_FRAMES.close));
      else socket.destroySoon();
    });
    await once(server.listen(network.port, network.address), "listening");
    const leader = await findLeader(network, 1, 2);
    const wasLost = leader.lost.then(() => true);
    assert.equal(await leader.port.next(true), undefined);
    const kept = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 300));
    assert.equal(await Promise.race([wasLost, kept]), !isTold);
    leader.close();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("findLeader() says when nobody leads", async () => {
  const network = await freeNetwork(700);
  await assert.rejects(findLeader(network, 1, 2), /no leader at MASTER_ADDR 127.0.0.1, MASTER_PORT \d+ within 0.7 s/);
});

test("a hello is three numbers behind length and kind", () => {
  const words = new Int32Array(helloFrame(1, 4).buffer);
  assert.deepEqual([...words], [5, 1, 2, 1, 4]);
});
