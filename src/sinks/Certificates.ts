/**
 * Certificates of one's own, for sinks that speak TLS: PEM files, read and
 * looked at when a sink opens, because a client may pass over a broken one in
 * silence.
 */
import { createPrivateKey, X509Certificate } from "node:crypto"
import { readFileSync } from "node:fs"
import { Effect, Redacted, Schema } from "effect"
import { secret, text } from "../config/schema/Keys.ts"
import { SinkError, SinkMisconfigured } from "./Sink.ts"

export const CertificatesConfig = Schema.Struct({
  ca: Schema.optionalKey(text("PEM file of the authorities to trust, instead of the system's")),
  certificate: Schema.optionalKey(text("PEM file of the client certificate")),
  key: Schema.optionalKey(secret("PEM file of the client certificate's key, or the PEM text itself")),
}).annotate({ together: ["certificate", "key"] })
export type CertificatesConfig = typeof CertificatesConfig.Type

/** PEM texts. */
export interface Certificates {
  readonly ca?: string
  readonly certificate?: string
  readonly key?: string
}

const misconfigured = (message: string) => new SinkError({ reason: new SinkMisconfigured({ message }) })

/** A PEM text as it is, or the file that holds it. */
const readPem = (what: string, textOrPath: string): string => {
  if (textOrPath.includes("-----BEGIN ")) return textOrPath
  try {
    return readFileSync(textOrPath, "utf8")
  } catch {
    // What stands at "key" may be a key that was garbled on its way here.
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
      const certificate = tls.certificate === undefined ? undefined : readPem("certificate", tls.certificate)
      const key = tls.key === undefined ? undefined : readPem("key", Redacted.value(tls.key))
      if (ca !== undefined) parsed("ca", () => new X509Certificate(ca))
      if (certificate !== undefined && key !== undefined) {
        const ours = parsed("certificate", () => new X509Certificate(certificate))
        const isPair = ours.checkPrivateKey(parsed("key", () => createPrivateKey(key)))
        if (!isPair) throw misconfigured('"tls.key" is not the key of "tls.certificate"')
      }
      return {
        ...(ca !== undefined && { ca }),
        ...(certificate !== undefined && { certificate }),
        ...(key !== undefined && { key }),
      }
    },
    catch: (error) => (error instanceof SinkError ? error : misconfigured('the certificates of "tls" can\'t be used')),
  })
