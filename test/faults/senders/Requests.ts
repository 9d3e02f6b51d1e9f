/**
 * Hostile requests over raw TCP: every case of the table, then good requests with random damage, then a comparison with
 * everything that the relay kept.
 *
 * **Guarantee.** The relay lives, answers a good delivery after each kind, reveals nothing about itself in an answer,
 * and its journal and sink hold the accepted bodies, byte for byte, and nothing else.
 */
import { createHmac } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { quarantine } from "../../../src/event/Event.ts"
import { envelope, expiredSecret, secret, startTarget, type Target } from "../../e2e/http/fixture.ts"
import * as Raw from "../../e2e/http/Raw.ts"
import { sign } from "../../lib/kit.ts"
import { bodies } from "../../lib/lines.ts"
import { isEnough, type Line, type Options, type Outcome } from "../Line.ts"
import * as Case from "./Case.ts"
import { cases } from "./Cases.ts"
import { damaged } from "./Damage.ts"
import { journaled } from "./Journaled.ts"

const sleep = (millis: number) => new Promise<undefined>((resolve) => setTimeout(resolve, millis, undefined))

/** Stored bodies are compared in the end, so this only bounds the time that a case without an answer holds a place. */
const silence = 250

const inTurns = async <A>(all: ReadonlyArray<A>, work: (one: A) => Promise<void>): Promise<void> => {
  const next = all[Symbol.iterator]()
  const worker = async () => {
    for (const one of next) await work(one)
  }
  await Promise.all(Array.from({ length: 24 }, worker))
}

/** Returns the kind of secret in an answer: a stack of the relay's code, a secret, or the right signature. */
const tells = (answer: string, one: Case.Case): string | undefined => {
  if (/\bat .+:\d+:\d+|node_modules|\/src\/|\.ts\b|Error:/.test(answer)) return "a stack"
  if (answer.includes(secret) || answer.includes(expiredSecret)) return "a secret"
  const right = one.signed.map((body) => createHmac("sha256", secret).update(body).digest("hex"))
  return right.some((digest) => answer.toLowerCase().includes(digest)) ? "a signature" : undefined
}

/** Heads and bodies of answers: a body is one line of problem+json, or there is none. */
const oddAnswer = (text: string): string | undefined => {
  for (const answer of text.split(/(?=^HTTP\/1\.[01] [0-9]{3})/m)) {
    const body = answer.slice(answer.indexOf("\r\n\r\n") + 4)
    if (body !== "" && !/^\{"status":[0-9]{3},"title":[^\n]*\}\n$/.test(body)) return body.slice(0, 200)
  }
  return undefined
}

const isPartOf = (some: Case.Statuses, all: Case.Statuses): boolean => {
  let at = 0
  for (const status of all) if (some[at] === status) at += 1
  return at === some.length
}

const sentinel = Buffer.from("GET /behind HTTP/1.1\r\nHost: relay.example\r\n\r\n")

/** Sends a case. Returns the statuses of its answers, and their faults. */
const send = async (port: number, one: Case.Case, expected: Case.Statuses) => {
  const connection = await Raw.open(port)
  try {
    connection.write(one.bytes)
    const answered = connection.answers(expected.length === 0 ? 1 : expected.length)
    const first = (await (expected.length === 0 ? Promise.race([answered, sleep(silence)]) : answered)) ?? {
      text: "",
      statuses: [],
      closed: false,
    }
    const broken: Array<string> = []
    const fits =
      one.mayBeCut && first.closed ? isPartOf(first.statuses, expected) : `${first.statuses}` === `${expected}`
    if (!fits)
      broken.push(`answered ${first.statuses.join(", ") || "nothing"} instead of ${expected.join(", ") || "nothing"}`)
    const told = tells(first.text, one)
    if (told !== undefined) broken.push(`an answer holds ${told}`)
    const odd = oddAnswer(first.text)
    if (odd !== undefined) broken.push(`an answer is no problem+json: ${odd}`)
    // If the relay agrees about the end of the request, it answers the next request as itself.
    if (fits && !one.isLast && expected.length > 0 && !first.closed && !/^connection: close/im.test(first.text)) {
      connection.write(sentinel)
      const { statuses } = await connection.answers(expected.length + 1)
      const behind = statuses.slice(expected.length)
      if (behind.length > 0 && `${behind}` !== "404") broken.push(`the request behind it was answered ${behind}`)
    }
    return { statuses: first.statuses, broken }
  } finally {
    connection.destroy()
  }
}

const good = async (port: number): Promise<{ readonly body: Uint8Array; readonly status: number | undefined }> => {
  const body = Case.bytes(envelope())
  const { statuses } = await Raw.send(port, Buffer.from(Case.delivery(body)).toString("utf8"))
  return { body, status: statuses[0] }
}

const text = (body: Uint8Array): string => Buffer.from(body).toString("latin1")
const counted = (all: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const one of all) counts.set(one, (counts.get(one) ?? 0) + 1)
  return counts
}

interface Sent {
  readonly one: Case.Case
  readonly accepted: number
}

/** Compares the answers with the stored bodies. */
const compare = async (target: Target, sent: ReadonlyArray<Sent>, goods: ReadonlyArray<Uint8Array>) => {
  const kept = await journaled(target.directory)
  const atSink = counted(bodies(readFileSync(join(target.directory, "events.ndjson"))).map(text))
  const inLog = counted(kept.map(({ body }) => text(body)))
  const quarantined = new Set(kept.filter(({ sinks }) => `${sinks}` === quarantine).map(({ body }) => text(body)))
  const broken: Array<string> = []
  let lost = 0
  const accounted = new Set(goods.map(text))
  for (const body of goods) if (!inLog.has(text(body))) lost += 1
  for (const { one, accepted } of sent) {
    const own = [...new Set(one.signed.map(text))]
    const there = own.filter((body) => inLog.has(body))
    for (const body of own) accounted.add(body)
    const name = `${one.kind}: ${one.name}`
    // An empty body is signed by several cases, and a duplicate is kept once.
    const wanted = Math.min(accepted, own.length)
    if (there.length < wanted) lost += wanted - there.length
    if (there.length > wanted && !one.mayBeCut && !own.includes("")) broken.push(`${name}: kept, and not accepted`)
    for (const body of there) {
      const isAt = atSink.has(body) ? "sink" : quarantined.has(body) ? "quarantine" : "neither"
      if (isAt !== one.at) broken.push(`${name}: at ${isAt} instead of ${one.at}`)
    }
  }
  for (const { body, signature, sinks } of kept) {
    const right = sign(body, secret)
    if (signature !== right) broken.push(`forged: ${text(body).slice(0, 100)} is kept under ${signature}`)
    if (!accounted.has(text(body))) broken.push(`kept, and sent by nobody: ${text(body).slice(0, 100)}`)
    if (sinks.includes("audit") && !atSink.has(text(body))) lost += 1
  }
  for (const body of atSink.keys())
    if (!inLog.has(body)) broken.push(`at the sink and not in the journal: ${body.slice(0, 100)}`)
  const duplicates = [...atSink.values()].reduce((most, count) => Math.max(most, count - 1), 0)
  return { broken, lost, duplicates, kept: kept.length }
}

const run = async (runtime: Case.Runtime, options: Options): Promise<Outcome> => {
  const { seed, long, binary } = options
  const target = await startTarget({ under: runtime, ...(binary === undefined ? {} : { binary }) })
  const broken: Array<string> = []
  const sent: Array<Sent> = []
  const goods: Array<Uint8Array> = []
  const lives = async (after: string) => {
    const { body, status } = await good(target.port)
    if (status === 202) goods.push(body)
    else broken.push(`a good delivery after ${after} was answered ${status ?? "nothing"}`)
  }
  try {
    const kinds = Map.groupBy(cases, (one) => one.kind)
    for (const [kind, some] of kinds) {
      if (isEnough(options, broken.length)) break
      await inTurns(some, async (one) => {
        const result = await send(target.port, one, one.answers[runtime])
        sent.push({ one, accepted: result.statuses.filter((status) => status < 300).length })
        broken.push(...result.broken.map((what) => `${kind}: ${one.name}: ${what}`))
      })
      await lives(kind)
    }
    const random = isEnough(options, broken.length) ? [] : damaged(seed, long ? 20_000 : 1_000)
    await inTurns(random, async (one) => {
      const connection = await Raw.open(target.port)
      connection.write(one.bytes)
      const answer = await Promise.race([connection.answers(1), sleep(silence)])
      connection.destroy()
      const accepted = (answer?.statuses ?? []).filter((status) => status < 300).length
      sent.push({ one, accepted })
      const told = answer === undefined ? undefined : tells(answer.text, one)
      if (told !== undefined) broken.push(`damage: an answer holds ${told}`)
    })
    await lives("random damage")
    const last = goods.at(-1) ?? new Uint8Array()
    if (!(await target.keeps(Buffer.from(last).toString("utf8"))))
      broken.push("the last good delivery is not at the sink")
    const code = await target.relay.kill()
    if (code !== 0) broken.push(`the relay ended with ${code}`)
    const said = target.relay.stdout() + target.relay.stderr()
    if (/a bug while/.test(said)) broken.push("the relay met a bug of its own; its log says which")
    if (said.includes(secret) || said.includes(expiredSecret)) broken.push("the log holds a secret")
    const compared = await compare(target, sent, goods)
    const differ = cases.filter((one) => one.why !== undefined).length
    return {
      rounds: sent.length,
      acknowledged: sent.reduce((sum, { accepted }) => sum + accepted, goods.length),
      lost: compared.lost,
      duplicates: compared.duplicates,
      bound: 0,
      broken: [...broken, ...compared.broken],
      notes: [
        `${cases.length} requests of ${kinds.size} kinds (${differ} answered otherwise by Bun and Deno), ${random.length} with random damage; ${compared.kept} kept`,
      ],
    }
  } finally {
    await target.stop()
  }
}

const fault = "hostile requests over raw TCP"

export const lines: ReadonlyArray<Line> = [
  { name: "requests", fault: `${fault}, Bun or the binary`, run: (options) => run("bun", options) },
  { name: "requests-deno", fault: `${fault}, Deno`, run: ({ binary: _, ...options }) => run("deno", options) },
]
