/** Reads certificates and keys from PEM text, and explains the mistakes in them. */
import { createPrivateKey, X509Certificate } from "node:crypto"
import * as tls from "node:tls"
import { Result } from "effect"
import type { EpochMillis } from "../event/Quantities.ts"

/** A certificate that is in use. */
export interface Certificate {
  /** The key of the config that names it: `tls.certificate`, `sinks.lake.tls.ca`. */
  readonly key: string
  /** The name that the certificate is for, or the authority's name. */
  readonly subject: string
  readonly notBefore: EpochMillis
  readonly notAfter: EpochMillis
  /** Its SHA-256. */
  readonly fingerprint: string
  /** Why a sender may not be able to verify the listener's certificate. Absent if the chain is complete. */
  readonly chain?: ChainProblem
}

/** A problem of a certificate or key, and the way to fix it. */
export interface Problem {
  readonly message: string
  readonly hint: string
}

/** An incomplete certificate chain. */
export interface ChainProblem extends Problem {
  /** Whether an intermediate is certainly missing. Otherwise the issuer may be a root that senders trust. */
  readonly isSure: boolean
}

/** Reports whether a value is PEM text rather than the name of a file. */
export const isPem = (value: string): boolean => value.includes("-----BEGIN ")

const blocks = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

const commonName = (name: string): string | undefined =>
  name
    .split("\n")
    .find((line) => line.startsWith("CN="))
    ?.slice(3)

const nameOf = ({ subject, subjectAltName }: X509Certificate): string => {
  const lines = (subject ?? "").split("\n")
  return commonName(subject ?? "") ?? subjectAltName?.split(", ")[0]?.replace(/^[^:]*:/, "") ?? lines.join(", ")
}

const isPrivateKey = (pem: string): boolean => /-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)

/** A block without a line break after its first line. `echo $VARIABLE` joins the lines, and an env file escapes the breaks. */
const unbroken = /-----BEGIN [A-Z ]+-----(?!\s*[\r\n])/

/** Makes the problem for a block that can't be parsed. */
const damaged = (what: string, pem: string, hint: string): Problem =>
  unbroken.test(pem)
    ? {
        message: `${what} has lost its line breaks`,
        hint: 'if a variable has it, write the file by `printf "%b\\n" "$VARIABLE" > FILE`: the quotes keep line breaks, and %b makes them of `\\n`',
      }
    : { message: `${what} is damaged`, hint }

/** Reads all certificates of a text, in its order. */
const read = (pem: string): Result.Result<ReadonlyArray<X509Certificate>, Problem> => {
  const found = pem.match(blocks) ?? []
  if (found.length === 0 && isPrivateKey(pem)) {
    return Result.fail({
      message: "this is a private key, not a certificate",
      hint: 'the key belongs to "key": are the two names swapped?',
    })
  }
  if (found.length === 0) {
    return Result.fail({
      message: "this is not a certificate in PEM",
      hint: 'such a file has a line "-----BEGIN CERTIFICATE-----"; `openssl x509 -inform der -in FILE` turns a DER file into one',
    })
  }
  return Result.try({
    try: () => found.map((block) => new X509Certificate(block)),
    catch: () => damaged("the certificate", pem, "get the file again from its issuer"),
  })
}

/** Reads the private key of a text. */
const readKey = (pem: string): Result.Result<ReturnType<typeof createPrivateKey>, Problem> => {
  if (!isPrivateKey(pem)) {
    return Result.fail({
      message: "this is not a private key in PEM",
      hint: 'such a file has a line "-----BEGIN PRIVATE KEY-----"',
    })
  }
  if (pem.includes("ENCRYPTED")) {
    return Result.fail({
      message: "the private key is encrypted, and the relay has no passphrase",
      hint: "`openssl pkey -in FILE -out NEW` removes the passphrase; let only the relay's user read the new file",
    })
  }
  return Result.try({
    try: () => createPrivateKey(pem),
    catch: () => damaged("the private key", pem, "get the file again, with its certificate"),
  })
}

/** Says what is wrong with a private key. With a certificate, also checks whether the key belongs to it. */
export const keyProblem = (pem: string, certificate?: string): Problem | undefined => {
  const key = readKey(pem)
  if (Result.isFailure(key)) return key.failure
  const ours = certificate === undefined ? undefined : read(certificate)
  const [first] = ours !== undefined && Result.isSuccess(ours) ? ours.success : []
  if (first === undefined || first.checkPrivateKey(key.success)) return undefined
  return {
    message: 'this is not the key of "certificate"',
    hint: "name the two that were made together, such as certbot's fullchain.pem and privkey.pem",
  }
}

/**
 * Returns the certificate that decides whether a text is usable: the first of a chain, or the authority that is valid
 * longest, because older authorities may be about to expire.
 */
export const parse = (pem: string, key: string, isBundle: boolean): Result.Result<Certificate, Problem> =>
  Result.map(read(pem), (all) => {
    const [first] = isBundle ? all.toSorted((a, b) => Date.parse(b.validTo) - Date.parse(a.validTo)) : all
    const { validFrom, validTo, fingerprint256 } = first as X509Certificate
    return {
      key,
      subject: nameOf(first as X509Certificate),
      notBefore: Date.parse(validFrom),
      notAfter: Date.parse(validTo),
      fingerprint: fingerprint256,
    }
  })

const isIssuedBy = (certificate: X509Certificate, other: X509Certificate): boolean =>
  certificate.checkIssued(other) && certificate.verify(other.publicKey)

let known: ReadonlySet<string> | undefined

/** The names of the roots that this machine trusts. Reading them takes about 10 ms, so it is done once. */
const trusted = (): ReadonlySet<string> => {
  known ??= readTrusted()
  return known
}

/** TypeScript's libraries for Bun do not declare `getCACertificates` yet. */
const readTrusted = (): ReadonlySet<string> => {
  const { rootCertificates, getCACertificates } = tls as typeof tls & {
    readonly getCACertificates: (which: "system" | "extra") => ReadonlyArray<string>
  }
  const all = new Set([...rootCertificates, ...getCACertificates("system"), ...getCACertificates("extra")])
  return new Set([...all].map((pem) => new X509Certificate(pem).subject))
}

/** Returns why a peer can't verify the first certificate of a text by the others in it; `undefined` if it can. */
export const chainProblem = (pem: string): ChainProblem | undefined => {
  const all = Result.getOrElse(read(pem), (): ReadonlyArray<X509Certificate> => [])
  const chain: Array<X509Certificate> = []
  for (let at = all[0]; at !== undefined; ) {
    if (at.subject === at.issuer) return undefined
    chain.push(at)
    const certificate = at
    const next = all.find((other) => !chain.includes(other) && isIssuedBy(certificate, other))
    if (next === undefined) return trusted().has(certificate.issuer) ? undefined : incomplete(certificate, all, chain)
    at = next
  }
  return undefined
}

const incomplete = (
  last: X509Certificate,
  all: ReadonlyArray<X509Certificate>,
  chain: ReadonlyArray<X509Certificate>,
): ChainProblem => {
  const issuer = commonName(last.issuer) ?? last.issuer.replaceAll("\n", ", ")
  const others = all.filter((one) => chain.every(({ fingerprint256 }) => fingerprint256 !== one.fingerprint256))
  const [, url] = /^CA Issuers - URI:(\S+)/m.exec(last.infoAccess ?? "") ?? []
  const from = url === undefined ? "" : ` (it is at ${url})`
  const append = `append the certificate of ${issuer}${from}, or name the whole chain, such as certbot's fullchain.pem`
  if (others.length > 0) {
    const names = others.map(nameOf).join(", ")
    const message = `the issuer of ${nameOf(last)} is ${issuer}, and the file has ${names} instead, so senders can't verify it`
    return { message, hint: `${append}, and remove the others`, isSure: true }
  }
  const missing = `the issuer of ${nameOf(last)}, ${issuer}, is not in the file`
  return url === undefined
    ? {
        message: `${missing}, and this machine doesn't know it: if it is an intermediate, senders can't verify the certificate`,
        hint: `${append}; if it is a root of your own, append it as well`,
        isSure: false,
      }
    : { message: `${missing}, so senders can't verify the certificate`, hint: append, isSure: true }
}

/** Returns the problem of a certificate that has expired or is not valid yet. */
export const timeProblem = ({ notBefore, notAfter }: Certificate, now: EpochMillis): Problem | undefined => {
  if (notAfter <= now) {
    return {
      message: `this certificate has expired, at ${new Date(notAfter).toISOString()}`,
      hint: "renew it, then `relay reload`",
    }
  }
  return notBefore <= now
    ? undefined
    : {
        message: `this certificate is not valid before ${new Date(notBefore).toISOString()}`,
        hint: "use the one before it until then, or set this machine's clock",
      }
}
