/**
 * A real PostgreSQL server with pgvector, started by a test in a folder of its own. NEREID_POSTGRES_BIN names the programs of an
 * installation (tests/vision/build-pgvector.sh makes one); else those of Debian's packages are looked at.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { freePortRange } from "./server-process.ts";

const DEBIAN = "/usr/lib/postgresql";
/** PostgreSQL refuses to run as root: tests that do hand it to nobody. */
const NOBODY = 65_534;
const START_LIMIT_MS = 240_000;

export type FoundPostgres = { readonly bin: string } | { readonly reason: string };

/** Programs of an installation that has pgvector, or why there is none. */
export function findPostgres(): FoundPostgres {
  const given = process.env.NEREID_POSTGRES_BIN;
  const debian = existsSync(DEBIAN) ? readdirSync(DEBIAN).map((version) => join(DEBIAN, version, "bin")) : [];
  const bins = (given === undefined ? debian : [given]).filter((bin) => existsSync(join(bin, "initdb")));
  if (bins.length === 0) return { reason: "no PostgreSQL is installed (Debian: postgresql)" };
  const bin = bins.find((candidate) => existsSync(join(extensionsOf(candidate), "vector.control")));
  if (bin !== undefined) return { bin };
  return {
    reason: `${bins.join(", ")} has no pgvector: tests/vision/build-pgvector.sh builds it, NEREID_POSTGRES_BIN names it`,
  };
}

/** As Debian lays it out: lib/postgresql/15/bin beside share/postgresql/15/extension. */
function extensionsOf(bin: string): string {
  const version = dirname(bin).split("/").at(-1) ?? "";
  return join(bin, "../../../../share/postgresql", version, "extension");
}

export class PostgresServer implements AsyncDisposable {
  readonly url: string;
  readonly #bin: string;
  readonly #folder: string;
  readonly #port: number;
  #child: ChildProcess | undefined;

  private constructor(bin: string, folder: string, port: number) {
    this.#bin = bin;
    this.#folder = folder;
    this.#port = port;
    this.url = `postgresql://nereid:secret@127.0.0.1:${port}/postgres`;
  }

  /** The caller disposes of it. */
  static async create(bin: string): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), "nereid-postgres-"));
    const { uid } = owner();
    if (uid !== undefined) chownSync(folder, uid, uid);
    const flags = ["-D", join(folder, "data"), "-U", "nereid", "-A", "trust", "--no-sync", "-E", "UTF8"];
    const { status, stderr } = spawnSync(join(bin, "initdb"), flags, { encoding: "utf8", ...owner(), cwd: folder });
    assert.equal(status, 0, stderr);
    const server = new PostgresServer(bin, folder, await freePortRange(1));
    await server.start();
    return server;
  }

  /** Undefined while it is down. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const settings = ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=40"].flatMap((one) => ["-c", one]);
    const flags = ["-D", join(this.#folder, "data"), "-p", String(this.#port), "-k", this.#folder, ...settings];
    this.#child = spawn(join(this.#bin, "postgres"), flags, { stdio: "ignore", ...owner(), cwd: this.#folder });
    const deadline = Date.now() + START_LIMIT_MS;
    while (!(await this.#accepts())) {
      assert.ok(Date.now() < deadline && this.#child.exitCode === null, "PostgreSQL did not start");
      await sleep(50);
    }
  }

  /** Without any farewell to its clients. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGQUIT"); // immediate: it ends its processes, and replays its log at the next start
    await gone;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #accepts(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.#port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
  }
}

function owner(): { readonly uid?: number; readonly gid?: number } {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}
