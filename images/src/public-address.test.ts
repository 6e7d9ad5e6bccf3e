import assert from "node:assert/strict";
import { test } from "node:test";
import { isPublicAddress } from "./public-address.ts";

const PUBLIC = ["8.8.8.8", "1.1.1.1", "168.63.129.15", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"];
const OWN = [
  "0.0.0.0",
  "10.1.2.3",
  "100.64.0.1",
  "127.0.0.1",
  "168.63.129.16",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::1",
  "::ffff:127.0.0.1",
  "fe80::1",
  "fd00::1",
  "fd00:ec2::254",
  "2001:db8::1",
  "2002:7f00:1::",
  "64:ff9b::7f00:1",
  "ff02::1",
  "name",
  "",
];
for (const address of PUBLIC) test(`${address} is public`, () => assert.equal(isPublicAddress(address), true));
for (const address of OWN) test(`'${address}' is not public`, () => assert.equal(isPublicAddress(address), false));
