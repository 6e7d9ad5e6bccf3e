/**
 * Decides whether an IP address is public, so that clients cannot make the server call internal services (CWE-918).
 * Source: IANA special-purpose address registries (RFC 6890). Pure.
 */
import { BlockList, isIP } from "node:net";

/** Address and prefix length of all blocks that are not global unicast. */
const NOT_PUBLIC_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8], // this host
  ["10.0.0.0", 8], // private
  ["100.64.0.0", 10], // carrier-grade NAT
  ["127.0.0.0", 8], // loopback
  ["168.63.129.16", 32], // Azure: the host of a virtual machine
  ["169.254.0.0", 16], // link-local, including cloud metadata services
  ["172.16.0.0", 12], // private
  ["192.0.0.0", 24], // protocol assignments
  ["192.0.2.0", 24], // documentation
  ["192.88.99.0", 24], // 6to4 relays
  ["192.168.0.0", 16], // private
  ["198.18.0.0", 15], // benchmarks
  ["198.51.100.0", 24], // documentation
  ["203.0.113.0", 24], // documentation
  ["224.0.0.0", 3], // multicast, reserved, broadcast
];
/** Only 2000::/3 is global unicast; the exceptions inside it embed IPv4 addresses or are reserved. */
const NOT_PUBLIC_V6: readonly (readonly [string, number])[] = [
  ["2001::", 23], // protocol assignments, Teredo
  ["2001:db8::", 32], // documentation
  ["2002::", 16], // 6to4
  ["3fff::", 20], // documentation
];

const NOT_PUBLIC = new BlockList();
for (const [address, prefix] of NOT_PUBLIC_V4) NOT_PUBLIC.addSubnet(address, prefix, "ipv4");
for (const [address, prefix] of NOT_PUBLIC_V6) NOT_PUBLIC.addSubnet(address, prefix, "ipv6");
const GLOBAL_V6 = new BlockList();
GLOBAL_V6.addSubnet("2000::", 3, "ipv6");

/** False also for text that is no address. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !NOT_PUBLIC.check(address, "ipv4");
  return family === 6 && GLOBAL_V6.check(address, "ipv6") && !NOT_PUBLIC.check(address, "ipv6");
}
