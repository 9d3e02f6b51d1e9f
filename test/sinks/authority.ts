/**
 * A certificate authority for tests, made by openssl in a directory of its own.
 * Where openssl is missing there is none, and the tests that need one say so.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Authority {
  /** PEM file of the authority's certificate. */
  readonly ca: string
  /** PEM files of a certificate for `names`; an expired one when asked for. */
  readonly issue: (
    name: string,
    names: string,
    days?: number,
    extension?: string,
  ) => {
    readonly certificate: string
    readonly key: string
    readonly pem: { readonly cert: string; readonly key: string }
  }
  readonly remove: () => void
}

export const authority = (): Authority | undefined => {
  if (spawnSync("openssl", ["version"]).status !== 0) {
    console.warn("openssl is missing: the tests of TLS are skipped")
    return undefined
  }
  const root = mkdtempSync(join(tmpdir(), "relay-authority-"))
  const at = (name: string) => join(root, name)
  const openssl = (...args: ReadonlyArray<string>) => {
    const { status, stderr } = spawnSync("openssl", args)
    if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`)
  }
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
  openssl("req", "-x509", ...key, "-days", "2", "-subj", "/CN=authority", "-keyout", at("ca.key"), "-out", at("ca.pem"))
  return {
    ca: at("ca.pem"),
    issue: (name, names, days = 2, extension = "") => {
      openssl("req", ...key, "-subj", `/CN=${name}`, "-keyout", at(`${name}.key`), "-out", at(`${name}.csr`))
      writeFileSync(at(`${name}.ext`), `subjectAltName=${names}\n${extension}\n`)
      const signedBy = ["-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial"]
      const out = ["-extfile", at(`${name}.ext`), "-days", String(days), "-out", at(`${name}.pem`)]
      openssl("x509", "-req", "-in", at(`${name}.csr`), ...signedBy, ...out)
      const [certificate, key_] = [at(`${name}.pem`), at(`${name}.key`)]
      return {
        certificate,
        key: key_,
        pem: { cert: readFileSync(certificate, "utf8"), key: readFileSync(key_, "utf8") },
      }
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}
