import assert from "node:assert/strict";
import { Socket } from "node:net";
import { test } from "node:test";
import { SilentConnections } from "./silent-connections.ts";

/** A connection of a client, as its sockets show themselves. */
function socketOf(remotePort: number): Socket {
  const place = { remoteAddress: { value: "127.0.0.1" }, remotePort: { value: remotePort } };
  return Object.defineProperties(new Socket(), place);
}

test("SilentConnections ends who has not agreed on TLS, and has a raw connection no more when TLS stands for it", () => {
  const silent = new SilentConnections();
  const [raw, other, secure] = [socketOf(1), socketOf(2), socketOf(1)];
  silent.addRaw(raw);
  silent.addRaw(other);
  silent.addSecure(secure);
  silent.heard(secure);
  silent.closeAll();
  assert.deepEqual([raw.destroyed, other.destroyed, secure.destroyed], [false, true, false]);
});

test("SilentConnections knows a client that comes again from its port before the end of its last connection is noticed", () => {
  const silent = new SilentConnections();
  const [broken, raw, secure] = [socketOf(1), socketOf(1), socketOf(1)];
  silent.addRaw(broken);
  silent.addRaw(raw);
  broken.emit("close");
  silent.addSecure(secure);
  silent.heard(secure);
  silent.closeAll();
  assert.deepEqual([raw.destroyed, secure.destroyed], [false, false]);
});
