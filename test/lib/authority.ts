/** A certificate authority for tests, made by openssl. Where openssl is missing, the tests that need one say so. */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const has = spawnSync("openssl", ["version"]).status === 0

/** Why certificates can't be made. With RELAY_PARTS=1 nothing is skipped, so a missing program fails the tests. */
export const lacking =
  has || process.env.RELAY_PARTS === "1" ? undefined : "openssl is missing, which makes the certificates: install it"

export interface Certificate {
  /** PEM files. */
  readonly certificate: string
  readonly key: string
  readonly pem: { readonly cert: string; readonly key: string }
}

export interface Authority {
  /** PEM file of the authority's certificate. */
  readonly ca: string
  /**
   * Issues a certificate for `names` (`DNS:localhost,IP:127.0.0.1`) that is valid for `days` (default: 2). A negative
   * number makes an expired certificate. `extension` is a line such as `extendedKeyUsage=clientAuth`.
   */
  readonly issue: (name: string, names: string, days?: number, extension?: string) => Certificate
  /** An authority below this one. */
  readonly intermediate: (name: string) => Authority
}

const openssl = (...args: ReadonlyArray<string>): void => {
  const { status, stderr, error } = spawnSync("openssl", args, { encoding: "utf8" })
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${error?.message ?? stderr}`)
}

const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

/** Makes an authority. Its files and the files of its certificates are in `directory`, under their names. */
export const makeAuthority = (directory: string, name = "authority"): Authority => {
  const at = (file: string) => join(directory, file)
  const ca = at(`${name}.pem`)
  const caKey = at(`${name}.key`)
  const isAuthority = ["-days", "2", "-subj", `/CN=${name}`, "-addext", "basicConstraints=critical,CA:TRUE"]
  openssl("req", "-x509", ...key, ...isAuthority, "-keyout", caKey, "-out", ca)
  return authorityIn(directory, name)
}

/** The authority whose certificate and key are in `directory` already. */
const authorityIn = (directory: string, authority: string): Authority => {
  const at = (file: string) => join(directory, file)
  const ca = at(`${authority}.pem`)
  const caKey = at(`${authority}.key`)
  const made: Authority = {
    ca,
    intermediate: (name) => {
      made.issue(name, `DNS:${name}`, 2, "basicConstraints=critical,CA:TRUE")
      return authorityIn(directory, name)
    },
    issue: (name, names, days = 2, extension = "") => {
      const [certificate, ownKey] = [at(`${name}.pem`), at(`${name}.key`)]
      openssl("req", "-new", ...key, "-subj", `/CN=${name}`, "-keyout", ownKey, "-out", at(`${name}.csr`))
      writeFileSync(at(`${name}.ext`), `subjectAltName=${names}\n${extension}\n`)
      const signedBy = ["-CA", ca, "-CAkey", caKey, "-CAcreateserial"]
      const out = ["-extfile", at(`${name}.ext`), "-days", String(days), "-out", certificate]
      openssl("x509", "-req", "-in", at(`${name}.csr`), ...signedBy, ...out)
      return {
        certificate,
        key: ownKey,
        pem: { cert: readFileSync(certificate, "utf8"), key: readFileSync(ownKey, "utf8") },
      }
    },
  }
  return made
}
