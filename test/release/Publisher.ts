/**
 * The publisher of a release. SECURITY.md states it in three lines, each "not set" until the publisher sets it. A
 * signed release is published, so `--sign` checks these lines, and checks that the tree is its tag.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Version } from "./Version.ts"

export interface Publisher {
  /** A `mailto:`, `https:` or `tel:` URI, as in RFC 9116. */
  readonly contact: string
  /** The repository's address. */
  readonly source: string
  /** An SSH public key without its comment. */
  readonly key: string
}

/** A publisher, and the commit and the tag that are published. */
export interface Publication extends Publisher {
  readonly commit: string
  readonly tag: string
  /** The file that `--sign` names. */
  readonly keyFile: string
}

const lines = {
  contact: {
    title: "Contact",
    form: /^(mailto:\S+@\S+|https:\/\/\S+|tel:\S+)$/,
    example: "mailto:security@example.com",
  },
  source: { title: "Source", form: /^https:\/\/\S+$/, example: "https://git.example.com/relay" },
  key: {
    title: "Signing key",
    form: /^(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/]+=*$/,
    example: "ssh-ed25519 AAAA…",
  },
} as const

/** The value of a line of SECURITY.md, or `undefined` if it isn't set. */
export const lineOf = (root: string, name: keyof Publisher): string | undefined => {
  const security = readFileSync(join(root, "SECURITY.md"), "utf8")
  const { title, form } = lines[name]
  const value = new RegExp(`^- ${title}: \`?(.*?)\`?$`, "m").exec(security)?.[1]
  return value !== undefined && form.test(value) ? value : undefined
}

const required = (root: string, name: keyof Publisher): string => {
  const value = lineOf(root, name)
  const { title, example } = lines[name]
  if (value !== undefined) return value
  throw new Error(`nothing is signed, because SECURITY.md has no ${title}: write the line "- ${title}: ${example}"`)
}

const git = (root: string, ...args: ReadonlyArray<string>): string => {
  const { status, stdout, stderr } = spawnSync("git", args, { cwd: root, encoding: "utf8" })
  if (status !== 0) throw new Error(`git ${args.join(" ")} failed: ${stderr}`)
  return stdout.trim()
}

/** Returns the public key of the key in a file. A `.pub` file alone means that the agent has the key. */
export const publicKey = (path: string): string => {
  if (!existsSync(path)) throw new Error(`--sign: there is no key ${path}`)
  const beside = path.endsWith(".pub") ? path : `${path}.pub`
  const read = () =>
    spawnSync("ssh-keygen", ["-y", "-f", path], { encoding: "utf8", stdio: ["inherit", "pipe", "pipe"] })
  const made = existsSync(beside) ? { status: 0, stdout: readFileSync(beside, "utf8"), stderr: "" } : read()
  if (made.status !== 0) throw new Error(`--sign: ssh-keygen can't read ${path}: ${made.stderr ?? "is it installed?"}`)
  return made.stdout.trim().split(" ").slice(0, 2).join(" ")
}

/** Throws if this tree may not be published with this key. The message names the change to make. */
export const publicationOf = (root: string, { version }: Version, keyFile: string): Publication => {
  const publisher = {
    contact: required(root, "contact"),
    source: required(root, "source"),
    key: required(root, "key"),
  }
  const own = publicKey(keyFile)
  if (own !== publisher.key)
    throw new Error(`nothing is signed, because the signing key of SECURITY.md is not the key of ${keyFile}, ${own}`)
  const changed = git(root, "status", "--porcelain")
  if (changed !== "") throw new Error(`nothing is signed, because the tree has changes since its commit:\n${changed}`)
  const tag = `v${version}`
  if (!git(root, "tag", "--points-at", "HEAD").split("\n").includes(tag))
    throw new Error(`nothing is signed, because the commit has no tag ${tag}: run git tag --annotate ${tag}`)
  return { ...publisher, commit: git(root, "rev-parse", "HEAD"), tag, keyFile }
}
