/** For commands without flags of TLS: https with the authorities that Node knows. */
import type { TlsFlags } from "../target/target.ts";

export const NO_TLS_FILES: TlsFlags = {
  "ssl-grpc-use-ssl": false,
  "ssl-https-verify-peer": 1,
  "ssl-https-ca-certificates-file": undefined,
  "ssl-https-client-certificate-file": undefined,
  "ssl-https-private-key-file": undefined,
};
