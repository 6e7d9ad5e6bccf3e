// Exits with 0 when the server is ready. NEREID_HEALTH_URL names another port or path.
"use strict";
const url = process.env.NEREID_HEALTH_URL ?? "http://127.0.0.1:8000/v2/health/ready";
fetch(url, { signal: AbortSignal.timeout(4000) }).then(
  ({ ok, status }) => {
    if (!ok) process.stderr.write(`${url}: expected 200, got ${status}\n`);
    process.exitCode = ok ? 0 : 1;
  },
  (error) => {
    process.stderr.write(`${url}: ${error.cause?.message ?? error.message}\n`);
    process.exitCode = 1;
  },
);
