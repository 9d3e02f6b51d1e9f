/**
 * The servers that the relay is measured against, and the sink it sends to:
 * `bun servers.ts KIND PORT [TO] [TOPIC]`, each in a process of its own.
 *
 * - `empty` answers.
 * - `bare` does the minimum that any receiver must do before it answers: it reads
 *   the bytes, verifies the signature, parses. It keeps nothing.
 * - `durable` also keeps the bytes before it answers, in SQLite at the path TO:
 *   one commit for all waiting requests, as safe from a power cut as the relay's.
 * - `forwarder` keeps nothing, and answers once the URL TO has taken the bytes.
 * - `producer` keeps nothing, and sends to TOPIC of the broker TO, by the client
 *   that the relay uses; it answers before that.
 * - `sink` counts the requests that it gets, or the lines of NDJSON, and answers a GET with the count. It refuses every
 *   TOth request, if TO is given.
 */
import { timingSafeEqual } from "node:crypto"
import { DatabaseSync } from "node:sqlite"
import { Producer } from "@platformatic/kafka"
import { secret } from "./Requests.ts"

type Handler = (request: Request) => Response | Promise<Response>

const keyed = new Bun.CryptoHasher("sha256", secret)
const utf8 = new TextDecoder("utf-8", { fatal: true })

const verified = (header: string | null, body: Uint8Array): boolean => {
  const claimed = Buffer.from(header?.slice("sha256=".length) ?? "", "hex")
  return claimed.length === 32 && timingSafeEqual(keyed.copy().update(body).digest(), claimed)
}

interface Envelope {
  readonly account_id: string
}

type Take = (body: Uint8Array<ArrayBuffer>, envelope: Envelope) => Promise<unknown> | undefined

/** Answers a delivery once `take` is done with it, and any other request immediately. */
const receiving =
  (take: Take): Handler =>
  async (request) => {
    if (request.method !== "POST") return new Response()
    const body = await request.bytes()
    if (!verified(request.headers.get("x-service-signature"), body)) return new Response(null, { status: 401 })
    const taken = take(body as Uint8Array<ArrayBuffer>, JSON.parse(utf8.decode(body)))
    if (taken !== undefined) await taken
    return new Response(null, { status: 202 })
  }

/** Commits in one transaction the deliveries that arrived during the transaction before. */
const keeping = (path: string): Take => {
  const db = new DatabaseSync(path)
  db.exec("PRAGMA page_size = 32768; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  db.exec("CREATE TABLE log (sequence INTEGER PRIMARY KEY, body BLOB NOT NULL)")
  const begin = db.prepare("BEGIN")
  const insert = db.prepare("INSERT INTO log (body) VALUES (?)")
  const end = db.prepare("COMMIT")
  let waiting: Array<Uint8Array> = []
  let committed = Promise.withResolvers<void>()
  const commit = () => {
    const group = waiting
    const { resolve } = committed
    waiting = []
    committed = Promise.withResolvers()
    begin.run()
    for (const body of group) insert.run(body)
    end.run()
    resolve()
  }
  return (body) => {
    if (waiting.push(body) === 1) setImmediate(commit)
    return committed.promise
  }
}

const forwarding =
  (url: string): Take =>
  (body) =>
    fetch(url, { method: "POST", body, headers: { "content-type": "application/json" } })

/** The largest number of deliveries in one request, and the largest number that may wait. */
const largestBatch = 500
const mostWaiting = 5_000

/** Sends one request at a time. The next request has the deliveries that arrived meanwhile. */
const producing = (broker: string, topic: string): Take => {
  const producer = new Producer<Buffer, Buffer, Buffer, Buffer>({
    clientId: "bare",
    bootstrapBrokers: [broker],
    idempotent: true,
    retries: 2,
  })
  const waiting: Array<{ readonly topic: string; readonly key: Buffer; readonly value: Buffer }> = []
  let room = Promise.withResolvers<void>()
  let sending = false
  const send = async () => {
    while (waiting.length > 0) {
      await producer.send({ messages: waiting.splice(0, largestBatch), acks: -1 })
      room.resolve()
      room = Promise.withResolvers()
    }
    sending = false
  }
  return (body, { account_id }) => {
    waiting.push({
      topic,
      key: Buffer.from(account_id),
      value: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    })
    if (!sending) {
      sending = true
      setImmediate(send)
    }
    return waiting.length < mostWaiting ? undefined : room.promise
  }
}

const linesIn = (body: Uint8Array): number => body.reduce((lines, byte) => (byte === 0x0a ? lines + 1 : lines), 0)

const sink = (): Handler => {
  let received = 0
  let asked = 0
  return async (request) => {
    if (request.method !== "POST") return new Response(String(received))
    const body = await request.bytes()
    asked += 1
    if (asked % Number(to || Number.POSITIVE_INFINITY) === 0) return new Response(null, { status: 500 })
    received += request.headers.get("content-type") === "application/x-ndjson" ? linesIn(body) : 1
    return new Response()
  }
}

const [kind = "", port, to = "", topic = ""] = process.argv.slice(2)
const kinds: Record<string, () => Handler> = {
  empty: () => () => new Response(),
  bare: () => receiving(() => undefined),
  durable: () => receiving(keeping(to)),
  forwarder: () => receiving(forwarding(to)),
  producer: () => receiving(producing(to, topic)),
  sink,
}
const handler = kinds[kind]?.()
if (handler === undefined) throw new Error(`no such server: ${kind}`)
Bun.serve({ hostname: "127.0.0.1", port: Number(port), fetch: handler, development: false })
