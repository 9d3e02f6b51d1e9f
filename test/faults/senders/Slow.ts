/**
 * Slow senders (slowloris): 500 connections that send a head or a body byte by byte, while signed load runs beside
 * them.
 *
 * **Guarantee.** They don't affect the others: a window of load has its p99 under 100 ms, or at most twice the p99
 * without them if the machine is too busy for that. An honest slow sender is served: it ends its delivery, gets a 202,
 * and its event is kept. In the long run they continue: ingest gives a body 30 seconds, Bun gives a head ten, and Deno
 * has no limit for a head.
 */
import { envelope, headers, startTarget, type Target } from "../../e2e/http/fixture.ts"
import * as Raw from "../../e2e/http/Raw.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import * as Case from "./Case.ts"
import { journaled } from "./Journaled.ts"

const connections = 500
/** The first window that is quick enough is the last. */
const windows = 5
const perSecond = 200
const limit = 100
/** Milliseconds that a delivery of the load waits for its answer. */
const answerTimeout = 10_000
/** Milliseconds that Bun gives a head, and milliseconds after which the deadline of a body has passed. */
const headDeadline = 9_000
const allDeadlines = 36_000

interface Slow {
  readonly connection: Raw.Connection
  readonly body: string
  readonly bytes: Uint8Array
  readonly isHead: boolean
  sent: number
}

/** Heads, bodies of a declared length, and chunks, in turns; each stops somewhere inside. */
const begin = async (port: number, index: number): Promise<Slow> => {
  const body = envelope("appointment.created", { note: "n".repeat(200) })
  const chunks = { framing: [Case.host, Case.chunked], payload: Case.inChunk(body) }
  const bytes = Case.delivery(body, index % 3 === 2 ? chunks : {})
  const head = Buffer.from(bytes).indexOf("\r\n\r\n") + 4
  const isHead = index % 3 === 0
  const sent = isHead ? Math.floor(head / 2) : head + 20
  const connection = await Raw.open(port)
  connection.write(bytes.subarray(0, sent))
  return { connection, body, bytes, isHead, sent }
}

/** Sends one more byte on every connection, over and over. Returns a function that stops it. */
const drip = (all: ReadonlyArray<Slow>): (() => void) => {
  let next = 0
  const timer = setInterval(() => {
    for (let count = 0; count < connections / 100; count++) {
      const one = all[next++ % all.length]
      if (one === undefined || one.sent >= one.bytes.length - 50) continue
      one.connection.write(one.bytes.subarray(one.sent, one.sent + 1))
      one.sent += 1
    }
  }, 20)
  return () => clearInterval(timer)
}

/** Sends signed deliveries at an even rate. Returns the accepted bodies, the number refused, and the p99. */
const load = async (target: Target, seconds: number) => {
  const accepted: Array<string> = []
  const millis: Array<number> = []
  let refused = 0
  const one = async () => {
    const body = envelope()
    const began = performance.now()
    const signal = AbortSignal.timeout(answerTimeout)
    const response = await fetch(target.url(), { method: "POST", body, headers: headers(body), signal }).catch(() => {})
    millis.push(performance.now() - began)
    if (response?.status === 202) accepted.push(body)
    else refused += 1
  }
  const all: Array<Promise<void>> = []
  const start = performance.now()
  for (let count = 0; count < seconds * perSecond; count++) {
    const wait = start + (count * 1_000) / perSecond - performance.now()
    if (wait > 1) await Bun.sleep(wait)
    all.push(one())
  }
  await Promise.all(all)
  millis.sort((a, b) => a - b)
  return { accepted, refused, p99: millis[Math.floor(millis.length * 0.99)] ?? Number.POSITIVE_INFINITY }
}

const run = async (runtime: Case.Runtime, { long, binary }: Options): Promise<Outcome> => {
  const target = await startTarget({ under: runtime, ...(binary === undefined ? {} : { binary }) })
  const broken: Array<string> = []
  const accepted: Array<string> = []
  const p99s: Array<number> = []
  const slow: Array<Slow> = []
  try {
    // The first second is for code that is compiled on first use.
    await load(target, 1)
    const alone = await load(target, 2)
    accepted.push(...alone.accepted)
    const bound = Math.max(limit, 2 * alone.p99)
    for (let index = 0; index < connections; index++) slow.push(await begin(target.port, index))
    const began = performance.now()
    const end = drip(slow)
    while (p99s.length < windows && !p99s.some((p99) => p99 < bound)) {
      const { refused, p99, ...rest } = await load(target, 2)
      accepted.push(...rest.accepted)
      p99s.push(p99)
      if (refused > 0) broken.push(`${refused} of the load were refused`)
    }
    if (long) await Bun.sleep(began + allDeadlines - performance.now())
    end()
    const elapsed = performance.now() - began
    const answers = await Promise.all(
      slow.map(async ({ connection, bytes, sent }) => {
        connection.write(bytes.subarray(sent))
        return (await connection.answers(1)).statuses[0]
      }),
    )
    let cut = 0
    for (const [index, { body, isHead }] of slow.entries()) {
      const status = answers[index]
      const isOver = isHead ? runtime === "bun" && elapsed > headDeadline : long
      if (status === 202) accepted.push(body)
      else if (isOver && (status === undefined || status === 408)) cut += 1
      else broken.push(`a slow ${isHead ? "head" : "body"} was answered ${status ?? "nothing"}`)
    }
    const due = slow.filter(({ isHead }) => !isHead || runtime === "bun").length
    if (long && cut < due) broken.push(`${due - cut} slow deliveries outlived their deadline`)
    const best = Math.min(...p99s)
    if (!(best < bound)) broken.push(`p99 was ${best.toFixed(0)} ms at best, and ${bound.toFixed(0)} at most is wanted`)
    const code = await target.relay.kill()
    if (code !== 0) broken.push(`the relay ended with ${code}`)
    const kept = new Set((await journaled(target.directory)).map(({ body }) => Buffer.from(body).toString("utf8")))
    return {
      rounds: p99s.length,
      acknowledged: accepted.length,
      lost: accepted.filter((body) => !kept.has(body)).length,
      duplicates: 0,
      broken: [...new Set(broken)],
      notes: [
        `p99 ${p99s.map((p99) => p99.toFixed(1)).join(", ")} ms at ${perSecond} a second beside ${connections} slow connections, ${alone.p99.toFixed(1)} without them${long ? `; ${cut} slow ones cut off` : ""}`,
      ],
    }
  } finally {
    for (const { connection } of slow) connection.destroy()
    await target.stop()
  }
}

const fault = `${connections} slow connections`

export const lines: ReadonlyArray<Line> = [
  { name: "slow", fault: `${fault}, Bun or the binary`, run: (options) => run("bun", options) },
  { name: "slow-deno", fault: `${fault}, Deno`, run: ({ binary: _, ...options }) => run("deno", options) },
]
