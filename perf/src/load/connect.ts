/** Opens the socket of a load generator's connection, with TLS when the address asks for it. */
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

export interface Address {
  readonly host: string;
  readonly port: number;
  /** Undefined: plain TCP. */
  readonly tls?: TlsOptions | undefined;
}

export interface TlsOptions {
  /** PEM of certificate authorities; undefined: those of the system. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly isVerified: boolean;
}

/** `protocol` is negotiated by ALPN (RFC 7301) where there is TLS. `opened` is called when bytes may be sent. */
export function openSocket(address: Address, protocol: "http/1.1" | "h2", opened: () => void): Socket {
  const { host, port, tls } = address;
  if (tls === undefined) return connectTcp({ host, port, noDelay: true }, opened);
  const { ca, cert, key, isVerified } = tls;
  const options = { host, port, servername: host, ALPNProtocols: [protocol], rejectUnauthorized: isVerified };
  const socket = connectTls({ ...options, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }, opened);
  socket.setNoDelay(true);
  return socket;
}
