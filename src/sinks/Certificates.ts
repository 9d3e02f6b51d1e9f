/**
 * Configured certificates for TLS: PEM files, read and checked when a sink
 * opens, because a client may silently ignore a broken one.
 */
import { createPrivateKey, X509Certificate } from "node:crypto"
import { readFileSync } from "node:fs"
import { Effect, Redacted, Schema } from "effect"
import { secret, text } from "../config/schema/Keys.ts"
import type { Certificates } from "../runtime/HttpTransport.ts"
import { misconfigured, SinkError } from "./Sink.ts"

export const CertificatesConfig = Schema.Struct({
  ca: Schema.optionalKey(text("PEM file of the authorities to trust, instead of the system's")),
  certificate: Schema.optionalKey(text("PEM file of the client certificate")),
  key: Schema.optionalKey(secret("PEM file of the client certificate's key, or the PEM text itself")),
}).annotate({ together: ["certificate", "key"] })
export type CertificatesConfig = typeof CertificatesConfig.Type

/** The PEM text itself, or the content of the file. */
const readPem = (what: string, textOrPath: string): string => {
  if (textOrPath.includes("-----BEGIN ")) return textOrPath
  try {
    return readFileSync(textOrPath, "utf8")
  } catch {
    // The value of "key" may be a damaged key rather than a path: it isn't shown.
    throw misconfigured(`the file of "tls.${what}" can't be read${what === "key" ? "" : `: ${textOrPath}`}`)
  }
}

const parsed = <A>(what: string, parse: () => A): A => {
  try {
    return parse()
  } catch {
    throw misconfigured(`"tls.${what}" is no PEM that can be used`)
  }
}

export const read = (tls: CertificatesConfig): Effect.Effect<Certificates, SinkError> =>
  Effect.try({
    try: () => {
      const ca = tls.ca === undefined ? undefined : readPem("ca", tls.ca)
      const cert = tls.certificate === undefined ? undefined : readPem("certificate", tls.certificate)
      const key = tls.key === undefined ? undefined : readPem("key", Redacted.value(tls.key))
      if (ca !== undefined) parsed("ca", () => new X509Certificate(ca))
      if (cert !== undefined && key !== undefined) {
        const ours = parsed("certificate", () => new X509Certificate(cert))
        const isPair = ours.checkPrivateKey(parsed("key", () => createPrivateKey(key)))
        if (!isPair) throw misconfigured('"tls.key" is not the key of "tls.certificate"')
      }
      return {
        ...(ca !== undefined && { ca }),
        ...(cert !== undefined && { cert }),
        ...(key !== undefined && { key }),
      }
    },
    catch: (error) => (error instanceof SinkError ? error : misconfigured('the certificates of "tls" can\'t be used')),
  })
