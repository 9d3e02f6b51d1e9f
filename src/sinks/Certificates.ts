/**
 * A sink's certificates for TLS. The config holds the contents of their files. A
 * file that could not be used when the config was loaded is read again when the sink
 * opens. Certificates are checked first, because a client may silently ignore a
 * broken one.
 */
import { readFileSync } from "node:fs"
import { Effect, Redacted, Result, Schema } from "effect"
import { isPem, keyProblem, type Problem, parse } from "../config/Certificate.ts"
import { secret, text } from "../config/schema/Keys.ts"
import type { Certificates, Failure } from "../runtime/HttpTransport.ts"
import { misconfigured, SinkError } from "./Sink.ts"

/** The keys of `tls`. */
export const CertificatesConfig = Schema.Struct({
  ca: Schema.optionalKey(text("PEM file of the authorities to trust, instead of the system's")),
  certificate: Schema.optionalKey(text("PEM file of the client certificate")),
  key: Schema.optionalKey(secret("PEM file of the client certificate's key, or the PEM text itself")),
}).annotate({
  together: ["certificate", "key"],
  certificates: true,
  otherNames: [
    ["cafile ca_cert ca_certificate root_ca", "ca"],
    ["cert cert_file crt_file certificate_file client_certificate", "certificate"],
    ["key_file private_key client_key", "key"],
    ["enabled enable", "", 'take this key out: "tls" needs no switch'],
    [
      "verify verify_certificate verify_hostname verification_mode verify_ssl skip_verify insecure insecure_skip_verify reject_unauthorized",
      "",
      'certificates are always checked: "ca" names the authority of one that is not public',
    ],
    ["key_pass passphrase key_password", "", "the key has no passphrase: `openssl pkey -in KEY -out NEW` removes it"],
    ["server_name sni", "", "the certificate is for the host that the relay connects to"],
  ],
})
export type CertificatesConfig = typeof CertificatesConfig.Type

const ofAuthority = 'name its authority with "tls": { "ca": … }'

/** Advises about a server's certificate with this failure. `key` of the config names the server. */
export const untrusted = (failure: Failure, key: string): string => {
  const remedies: Partial<Record<Failure, string>> = {
    "untrusted certificate": ofAuthority,
    "expired certificate": "renew it, and check the clocks of both machines",
    "certificate of another host": `correct the host in "${key}", or give the server a certificate for that name`,
    "unfit certificate": "replace it by one for a server",
  }
  return `its certificate can't be trusted (${failure}): ${remedies[failure] ?? ofAuthority}`
}

const readPem = (key: string, textOrPath: string): string => {
  if (isPem(textOrPath)) return textOrPath
  try {
    return readFileSync(textOrPath, "utf8")
  } catch {
    // The value of "key" may be a damaged key rather than a path: it isn't shown.
    throw misconfigured(`the file of "${key}" can't be read${key.endsWith(".key") ? "" : `: ${textOrPath}`}`)
  }
}

const certificateProblem = (pem: string): Problem | undefined => {
  const parsed = parse(pem, "", false)
  return Result.isFailure(parsed) ? parsed.failure : undefined
}

const checked = (key: string, pem: string, problem: Problem | undefined): string => {
  if (problem === undefined) return pem
  throw misconfigured(`"${key}": ${problem.message}; ${problem.hint}`)
}

/**
 * Returns the checked PEM texts of a config. `at` is the path of that config in the
 * sink's. Fails with `SinkMisconfigured`.
 */
export const read = (tls: CertificatesConfig, at = "tls"): Effect.Effect<Certificates, SinkError> =>
  Effect.try({
    try: () => {
      const of = (role: "ca" | "certificate"): string | undefined => {
        const pem = tls[role] === undefined ? undefined : readPem(`${at}.${role}`, tls[role])
        return pem === undefined ? undefined : checked(`${at}.${role}`, pem, certificateProblem(pem))
      }
      const [ca, cert] = [of("ca"), of("certificate")]
      const own = tls.key === undefined ? undefined : readPem(`${at}.key`, Redacted.value(tls.key))
      const key = own === undefined ? undefined : checked(`${at}.key`, own, keyProblem(own, cert))
      return {
        ...(ca !== undefined && { ca }),
        ...(cert !== undefined && { cert }),
        ...(key !== undefined && { key }),
      }
    },
    catch: (error) => (error instanceof SinkError ? error : misconfigured(`the certificates of "${at}" can't be used`)),
  })
