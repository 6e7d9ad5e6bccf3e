/**
 * Fetches the GGUF file of a URL into a folder of its own: resumes with ranges (RFC 9110, section 14). A server states no
 * hash, so the length and the entity tag identify the content.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { requireFreeBytes } from "@nereid/server/files/disk-space";
import { formatBytes } from "@nereid/server/files/progress-text";
import { TargetLock } from "@nereid/server/files/target-lock";
import { ToolError } from "@nereid/server/files/tool-error";
import { type HubConnection, requestHub } from "@nereid/server/hub/http";
import type { TransferredFile } from "@nereid/server/hub/transfer";
import type { ResolveContext, ResolvedModel } from "./resolved-model.ts";
import { transferWithProgress } from "./transfer-with-progress.ts";

/** @throws ToolError */
export async function resolveUrl(name: string, url: URL, context: ResolveContext): Promise<ResolvedModel> {
  const { store, hub, refreshes, reporter } = context;
  const folder = store.download(url);
  const path = join(folder, decodeURIComponent(basename(url.pathname)));
  const found: ResolvedModel = { name, kind: "model", path, origin: `${url.href} in ${folder}` };
  if (existsSync(path) && (!refreshes || hub.isOffline)) return found;
  if (hub.isOffline) {
    throw new ToolError(`${url.href} is not in ${store.downloads}, and the network may not be used`, {
      fix: `Fetch it with nereid pull ${url.href}, without --offline and HF_HUB_OFFLINE`,
    });
  }
  await mkdir(folder, { recursive: true });
  await using _lock = await TargetLock.acquire(path);
  const connection = { endpoint: url.origin, token: undefined, stallMs: hub.stallMs, signal: context.signal };
  const { file, tag } = await askForFile(connection, url);
  await requireFreeBytes(folder, file.bytes);
  reporter.info(`${url.href}: ${formatBytes(file.bytes)}, to ${folder}`);
  await transferWithProgress(
    [{ file, url: url.href, partial: `${path}.${tag}.incomplete`, target: path }],
    connection,
    context,
  );
  await writeFileAtomically(join(folder, "source.json"), `${JSON.stringify({ url: url.href })}\n`);
  return found;
}

/** Length and identity of the content, from the headers of a request whose body is left unread. */
async function askForFile(connection: HubConnection, url: URL): Promise<{ file: TransferredFile; tag: string }> {
  const answer = await requestHub(connection, url.href, { range: "bytes=0-" }).catch((error: unknown) => {
    if (!(error instanceof ToolError)) throw error;
    throw new ToolError(error.message, { cause: error, fix: "Check the address" });
  });
  await answer.response.body?.cancel();
  answer.done();
  const { headers } = answer.response;
  const range = /\/(\d+)$/.exec(headers.get("content-range") ?? "")?.[1];
  const bytes = Number(range ?? headers.get("content-length") ?? Number.NaN);
  if (!Number.isSafeInteger(bytes)) throw new ToolError(`${url.href}: the server does not tell the length of the file`);
  const identity = `${headers.get("etag") ?? ""} ${headers.get("last-modified") ?? ""} ${bytes}`;
  const tag = createHash("sha256").update(identity).digest("hex").slice(0, 12);
  return { file: { path: basename(url.pathname), bytes, hash: undefined }, tag };
}
