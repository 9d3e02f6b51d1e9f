/**
 * An SSH signature of the checksums of a release. `ssh-keygen`, which every Debian, macOS and Windows has, verifies it
 * as docs/operations/install.md describes.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Checksums from "./Checksums.ts"
import type { Publication } from "./Publisher.ts"

/** OpenSSH's namespace of a signed file. A signature for another purpose doesn't verify. */
const namespace = "file"
const identity = "relay"

/** Throws if the publisher's key doesn't verify the signature. */
const verify = (directory: string, { key }: Publication): void => {
  const signers = mkdtempSync(join(tmpdir(), "relay-signers-"))
  try {
    const allowed = join(signers, "allowed")
    writeFileSync(allowed, `${identity} namespaces="${namespace}" ${key}\n`)
    const signature = join(directory, `${Checksums.file}.sig`)
    const args = ["-Y", "verify", "-f", allowed, "-I", identity, "-n", namespace, "-s", signature]
    const input = readFileSync(join(directory, Checksums.file))
    const { status, stdout, stderr } = spawnSync("ssh-keygen", args, { input, encoding: "utf8" })
    if (status !== 0) throw new Error(`the new signature does not verify: ${stdout}${stderr}`)
  } finally {
    rmSync(signers, { recursive: true })
  }
}

/** Writes SHA256SUMS.sig, and verifies it as users do. ssh-keygen asks for the key's passphrase, if it has one. */
export const sign = (directory: string, publication: Publication): void => {
  const args = ["-Y", "sign", "-q", "-n", namespace, "-f", publication.keyFile, join(directory, Checksums.file)]
  const { status, stderr } = spawnSync("ssh-keygen", args, { stdio: ["inherit", "inherit", "pipe"], encoding: "utf8" })
  if (status !== 0) throw new Error(`ssh-keygen did not sign by ${publication.keyFile}: ${stderr}`)
  verify(directory, publication)
}
