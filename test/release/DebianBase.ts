/**
 * The binary's dependencies on the system, from two of Debian's packages: the C library and the certificate
 * authorities. apt fetches and verifies the newest version in this machine's Debian, for either processor.
 */
import { execFile } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { extract } from "tar-stream"
import type { Entry } from "./Tarball.ts"

const run = promisify(execFile)
const packages = ["libc6", "ca-certificates"]

export const reasonToSkip = (): string | undefined =>
  existsSync("/etc/debian_version") && Bun.which("apt-get") !== null && Bun.which("dpkg-deb") !== null
    ? undefined
    : "the image's base is of Debian's packages, by apt-get and dpkg-deb"

export interface Base {
  readonly entries: ReadonlyArray<Entry>
  /** The packages' files, such as `libc6_2.36-9+deb12u14_amd64.deb`. */
  readonly packages: ReadonlyArray<string>
}

/** The loader, the C library, and the libraries that it loads to resolve names. */
const library = /\/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|nss_dns|nss_files))\.so\.\d+$/
const authority = /^usr\/share\/ca-certificates\/.*\.crt$/
const copyright = /^usr\/share\/doc\/[^/]+\/copyright$/

/** The path of a file on a current Debian, where `/lib` and `/lib64` are links into `/usr`. */
const merged = (path: string): string => path.replace(/^\.\//, "").replace(/^lib/, "usr/lib")

const filesOf = async (archive: string): Promise<ReadonlyArray<Entry>> => {
  const entries: Array<Entry> = []
  const { stdout } = await run("dpkg-deb", ["--fsys-tarfile", archive], { encoding: "buffer", maxBuffer: 1 << 28 })
  const reader = extract()
  reader.end(stdout)
  for await (const entry of reader) {
    const { name, type, mode, linkname } = entry.header
    const chunks: Array<Uint8Array> = []
    for await (const chunk of entry) chunks.push(chunk as Uint8Array)
    if (type === "symlink") entries.push({ path: merged(name), linkname, mode })
    else if (type === "file") entries.push({ path: merged(name), content: Buffer.concat(chunks), mode })
  }
  return entries
}

/** Fetches the base for a processor, by Debian's name for it. */
export const fetchBase = async (architecture: string): Promise<Base> => {
  const directory = mkdtempSync(join(tmpdir(), "relay-base-"))
  try {
    for (const name of ["lists/partial", "archives/partial"]) mkdirSync(join(directory, name), { recursive: true })
    const options = {
      "Dir::State": directory,
      "Dir::State::lists": join(directory, "lists"),
      "Dir::State::status": "/dev/null",
      "Dir::Cache": directory,
      "APT::Architecture": architecture,
      "APT::Architectures::": architecture,
      "APT::Sandbox::User": "",
      "Acquire::Languages": "none",
    }
    const flags = Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`])
    await run("apt-get", ["-qq", ...flags, "update"], { cwd: directory })
    await run("apt-get", ["-qq", ...flags, "download", ...packages], { cwd: directory })
    const archives = readdirSync(directory)
      .filter((name) => name.endsWith(".deb"))
      .sort()
    const files = (await Promise.all(archives.map((name) => filesOf(join(directory, name))))).flat()
    const authorities = files
      .filter(({ path }) => authority.test(path))
      .map(({ content = "" }) => String(content).trim())
    return {
      packages: archives.map(decodeURIComponent),
      entries: [
        ...["lib", "lib64"].map((path) => ({ path, linkname: `usr/${path}` })),
        ...files.filter(({ path }) => library.test(path) || copyright.test(path)),
        { path: "etc/ssl/certs/ca-certificates.crt", content: `${authorities.join("\n")}\n` },
        { path: "etc/nsswitch.conf", content: "hosts: files dns\n" },
        { path: "etc/passwd", content: "root:x:0:0::/:/none\nrelay:x:65532:65532::/data:/none\n" },
        { path: "etc/group", content: "root:x:0:\nrelay:x:65532:\n" },
        { path: "tmp/", mode: 0o1777 },
      ],
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
}
