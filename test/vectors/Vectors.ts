/** Signatures that openssl computed (`make.sh`), as the tests read them. */
import vectors from "./vectors.json" with { type: "json" }

export interface Vector {
  readonly name: string
  readonly secret: string
  readonly body: Uint8Array
  readonly signature: string
}

const bytes = (body: { readonly base64?: string; readonly byte?: number; readonly count?: number }): Uint8Array =>
  body.base64 === undefined
    ? new Uint8Array(body.count ?? 0).fill(body.byte ?? 0)
    : Uint8Array.from(Buffer.from(body.base64, "base64"))

export const all: ReadonlyArray<Vector> = vectors.map(({ name, secret, body, signature }) => ({
  name,
  secret: Buffer.from(secret, "base64").toString("utf8"),
  body: bytes(body),
  signature,
}))
