import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { FRAME } from "./codes.ts";
import { FrameWriter } from "./frame-writer.ts";

describe("FrameWriter", () => {
  const server = createServer();
  let [socket, peer]: [Socket | undefined, Socket | undefined] = [undefined, undefined];
  before(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    [peer] = (await once(server, "connection")) as [Socket];
    peer.resume();
  });
  after(() => {
    socket?.destroy();
    peer?.destroy();
    server.close();
  });

  for (const numBytes of [100, 8192, 8193, 3_000_000]) {
    it(`whenWritten() calls back for a payload of ${numBytes} bytes, with nothing sent behind it`, async () => {
      const writer = new FrameWriter(socket as Socket);
      writer.frame(FRAME.data, 0, 1, new Uint8Array(numBytes));
      await new Promise<void>((resolve) => writer.whenWritten(resolve));
      assert.equal(writer.unsentBytes, 0);
    });
  }
});
