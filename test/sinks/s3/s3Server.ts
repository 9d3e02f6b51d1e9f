/** An S3 that fails on request, and compares each object with the hashes of its request, as S3 does. */
import { createHash } from "node:crypto"
import { Effect, type Scope } from "effect"
import type { Stored } from "../../parts/Buckets.ts"
import { serve } from "../receiver.ts"

/** The fate of a request: an answer, or none. */
export type Fate =
  | { readonly status: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> }
  | "reset"
  | "silence"

export interface Asked {
  readonly method: string
  /** The host name of the request. */
  readonly host: string
  /** The path, and the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  /** The time in the signature, in epoch milliseconds. */
  readonly signedAt: number
}

export interface S3Server {
  readonly url: string
  readonly asked: ReadonlyArray<Asked>
  /** The objects in the order of their paths. */
  readonly objects: () => ReadonlyArray<Stored>
}

export const errorXml = (code: string, message = "canary-of-an-answer", more = ""): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>${more}<RequestId>r</RequestId></Error>`

export const error = (status: number, code: string, message?: string, more?: string): Fate => ({
  status,
  body: errorXml(code, message, more),
})

export const listed =
  '<?xml version="1.0"?><ListBucketResult><Name>events</Name><KeyCount>0</KeyCount></ListBucketResult>'

const isoOf = (basic: string): string => basic.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5")

const digest = (algorithm: string, body: Uint8Array, encoding: "hex" | "base64"): string =>
  createHash(algorithm).update(body).digest(encoding)

export const s3Server = (
  fate: (asked: Asked, body: Uint8Array) => Fate | undefined = () => undefined,
): Effect.Effect<S3Server, never, Scope.Scope> =>
  Effect.suspend(() => {
    const asked: Array<Asked> = []
    const objects = new Map<string, Uint8Array>()
    return Effect.map(
      serve(({ method, url: path, headers, body }, response, raw) => {
        const signedAt = Date.parse(isoOf(String(headers["x-amz-date"])))
        const one: Asked = { method, host: String(headers.host), path, headers, signedAt }
        asked.push(one)
        const own = fate(one, body)
        if (own === "silence") return
        if (own === "reset") return void raw.socket.destroy()
        if (own !== undefined) {
          response.writeHead(own.status, { "content-type": "application/xml", ...own.headers }).end(own.body ?? "")
          return
        }
        if (method === "GET") return void response.end(listed)
        const isWhole =
          headers["x-amz-content-sha256"] === digest("sha256", body, "hex") &&
          headers["content-md5"] === digest("md5", body, "base64")
        if (!isWhole) return void response.writeHead(400).end(errorXml("BadDigest"))
        objects.set(decodeURIComponent(path), body)
        response.writeHead(200, { etag: '"etag"' }).end()
      }),
      ({ url }) => ({
        url,
        asked,
        objects: () =>
          [...objects]
            .map(([name, bytes]) => ({ name, bytes }))
            .toSorted((one, other) => (one.name < other.name ? -1 : 1)),
      }),
    )
  })
