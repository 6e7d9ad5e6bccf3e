/** Addresses and names of this machine alone. Sources: RFC 1122, 3.2.1.3; RFC 4291, 2.5.3; RFC 6761, 6.3. */

const LOOPBACK_V4 = /^127(?:\.\d{1,3}){3}$/;

/** `host` is an address, or a name as a URL has it: IPv6 with or without brackets. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  return name === "localhost" || name === "::1" || LOOPBACK_V4.test(name);
}
