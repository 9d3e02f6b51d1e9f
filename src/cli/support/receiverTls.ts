/** How `trigger` trusts the listener's certificate, and what is wrong when it can't. */
import { Effect, FileSystem, Option, Result } from "effect"
import type { Failure } from "../../runtime/HttpTransport.ts"
import { io } from "./CommandError.ts"
import { lazily } from "./Program.ts"

/** A `fetch` that trusts the authorities of a PEM file, where one is given, instead of the system's. */
export const fetchTrusting = Effect.fnUntraced(function* (file: Option.Option<string>) {
  if (Option.isNone(file)) return globalThis.fetch
  const [{ parse }, { make }] = yield* Effect.all([
    lazily(() => import("../../config/Certificate.ts")),
    lazily(() => import("../../runtime/HttpTransport.ts")),
  ])
  const fs = yield* FileSystem.FileSystem
  const ca = yield* Effect.mapError(fs.readFileString(file.value), () => io(`${file.value} of --ca can't be read`))
  const parsed = parse(ca, "--ca", true)
  if (Result.isFailure(parsed)) {
    return yield* io(`${file.value} of --ca: ${parsed.failure.message}\n  ${parsed.failure.hint}`)
  }
  return yield* make({ ca })
})

/**
 * Why a certificate was not trusted, and what to do; `undefined` for any other
 * failure. `subject` is whom the certificate is for, where that is known.
 */
export const distrust = (failure: Failure, url: string, subject?: string): string | undefined => {
  const { origin, pathname, port } = new URL(url)
  switch (failure) {
    case "untrusted certificate":
      return `no authority that this machine trusts signed the certificate of ${origin}\n  --ca FILE trusts its authority, or the certificate itself where it is self-signed.`
    case "certificate of another host": {
      const named = `https://${subject ?? "NAME"}${port === "" ? "" : `:${port}`}${pathname}`
      return `the certificate of ${origin} is for another host${subject === undefined ? "" : `, ${subject}`}\n  Send to the name that it is for: --url ${named}`
    }
    case "expired certificate":
      return `the certificate of ${origin} has expired, or is not valid yet\n  Renew it, then \`relay reload\`; \`relay status\` shows which the relay uses.`
    case "unfit certificate":
      return `the certificate of ${origin} was not made for a server\n  Get one that is: with it no sender can deliver.`
    case "failed handshake":
      return `there is no TLS with ${origin}\n  Does it speak https? --url chooses another address.`
    default:
      return undefined
  }
}
