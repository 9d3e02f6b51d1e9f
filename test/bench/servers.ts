/**
 * The servers that the relay is measured against, and the sink it sends to:
 * `bun servers.ts empty|ceiling|forwarder|sink PORT [URL]`, each in a process of
 * its own.
 *
 * The ceiling is what any receiver must do at the least before it answers:
 * read the bytes, verify the signature, parse. It keeps nothing. The forwarder
 * does the same and sends the bytes on to URL, once, whatever becomes of them.
 */
import { timingSafeEqual } from "node:crypto"
import { secret } from "./Requests.ts"

const keyed = new Bun.CryptoHasher("sha256", secret)
const utf8 = new TextDecoder("utf-8", { fatal: true })
let received = 0

const verified = (header: string | null, body: Uint8Array): boolean => {
  const claimed = Buffer.from(header?.slice("sha256=".length) ?? "", "hex")
  return claimed.length === 32 && timingSafeEqual(keyed.copy().update(body).digest(), claimed)
}

/** The bytes of a delivery; `undefined` where its signature is wrong. */
const read = async (request: Request): Promise<Uint8Array | undefined> => {
  const body = await request.bytes()
  if (!verified(request.headers.get("x-service-signature"), body)) return undefined
  JSON.parse(utf8.decode(body))
  return body
}

const handlers: Record<string, (request: Request) => Response | Promise<Response>> = {
  empty: () => new Response(),
  ceiling: async (request) => {
    if (request.method !== "POST") return new Response()
    return new Response(null, { status: (await read(request)) === undefined ? 401 : 202 })
  },
  forwarder: async (request) => {
    if (request.method !== "POST") return new Response()
    const body = await read(request)
    if (body === undefined) return new Response(null, { status: 401 })
    fetch(url, {
      method: "POST",
      body: body as Uint8Array<ArrayBuffer>,
      headers: { "content-type": "application/json" },
    }).catch(() => {})
    return new Response(null, { status: 202 })
  },
  // Answers a GET with how many deliveries it has had.
  sink: async (request) => {
    if (request.method !== "POST") return new Response(String(received))
    await request.bytes()
    received += 1
    return new Response()
  },
}

const [kind = "", port, url = ""] = process.argv.slice(2)
const handler = handlers[kind]
if (handler === undefined) throw new Error(`no such server: ${kind}`)
Bun.serve({ hostname: "127.0.0.1", port: Number(port), fetch: handler, development: false })
