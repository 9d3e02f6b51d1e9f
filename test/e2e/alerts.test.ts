/**
 * Failures of many accounts, reminders and recoveries through the whole program, at each kind of sink that sends
 * alerts, while relays are killed. Of two relays on one PostgreSQL the other takes over, or the PostgreSQL itself fails
 * over to its standby. The long run: RELAY_ROUNDS=20.
 */
import { expect, test } from "bun:test"
import type { AlertReport } from "../../src/admin/api/Api.ts"
import type { Event } from "../../src/admin/api/EventApi.ts"
import { envelope, post, until, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { type Relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { tries } from "../lib/tries.ts"
import { Cluster, reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"
import { mailConfig } from "../sinks/email/emailSink.ts"
import { startSmtp } from "../sinks/email/smtpServer.ts"

const accounts = Array.from({ length: Number(process.env.RELAY_ACCOUNTS ?? 40) }, (_, n) => `acct_${n}_`)
const [after, concurrency] = [3, 8]
/** Two failures, which are too few for an alert, and their recovery. */
const flap = [1, 2, 3] as const
/** An alert begins with the third of these failures, and each account recovers after a reminder. */
const failures = Array.from({ length: Number(process.env.RELAY_FAILURES ?? 5) }, (_, n) => flap.length + 1 + n)
/** Milliseconds. An alert remembers ten messages, so reminders are fewer if there are many failures. */
const repeat = Math.max(500, 40 * failures.length)
const beginning = flap.length + 1
const sending = flap.length + after
/** All events of an account. The first is the recovery. */
const numbers = [0, ...flap, ...failures]
const [failed, recovered] = ["connected_account.refresh_failed", "connected_account.reconnected"]

const idOf = (account: string, n: number): string => `evt_${account}${n}`
const body = (account: string, type: string, n: number): string =>
  envelope(idOf(account, n), { type, object: { id: `ca_${account}` } }, { account_id: account })

/** The sinks by their types, without their common keys. */
const kinds = {
  alertmanager: {},
  pagerduty: { routingKey: "0123456789abcdef0123456789abcdef" },
  slack: {},
  teams: {},
  discord: {},
  http: {
    format: "template",
    body: { summary: "{{summary}}", type: "{{type}}" },
    resolve: {},
  },
  email: { ...mailConfig, security: "none" },
} as const
type Kind = keyof typeof kinds

const actions = ["trigger", "reminder", "resolve"] as const

interface Message {
  readonly kind: Kind
  readonly account: string
  readonly is: (typeof actions)[number]
  /** The id of a message, which its repetitions share. Some services don't get one. */
  readonly id: string | undefined
}

/** Whether a message reports the recovery. Alertmanager's has no start time; all others name the event's type. */
const isEnd = (kind: Kind, text: string): boolean =>
  kind === "alertmanager"
    ? !text.includes('"startsAt"')
    : kind === "pagerduty"
      ? text.includes('"event_action":"resolve"')
      : text.includes(recovered)

const messageOf = (kind: Kind, text: string, id: string | undefined): Message => ({
  kind,
  account: /acct_\d+_/.exec(text)?.[0] ?? text,
  is: isEnd(kind, text) ? "resolve" : text.includes("Reminder: ") ? "reminder" : "trigger",
  id,
})

/** Receives the messages of all sinks: mails by SMTP, and all others at the path of their kind. */
const receiver = async () => {
  const posted: Array<Message> = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const kind = new URL(request.url).pathname.split("/")[1] as Kind
      // Discord's text escapes underscores.
      const text = (await request.text()).replaceAll("\\", "")
      posted.push(messageOf(kind, text, request.headers.get("idempotency-key") ?? undefined))
      return kind === "slack" ? new Response("ok") : Response.json({ status: "success" }, { status: 202 })
    },
  })
  const smtp = await startSmtp()
  const mailed: Array<Message> = []
  return {
    targetOf: (kind: Kind) =>
      kind === "email" ? { server: smtp.server } : { url: `${server.url}${kind}/api/v2/alerts` },
    received: (): ReadonlyArray<Message> => {
      for (const { mail } of smtp.taken.slice(mailed.length))
        mailed.push(messageOf("email", `${mail.subject}\n${mail.text}`, mail.messageId))
      return [...posted, ...mailed]
    },
    close: () => Promise.all([server.stop(true), smtp.close()]),
  }
}

interface Member {
  readonly cwd: string
  readonly config: string
  readonly url: string
  readonly admin: string
  running: Relay
}

interface Storm {
  readonly kinds: ReadonlyArray<Kind>
  /** The journal of each relay. */
  readonly relays: ReadonlyArray<object>
  readonly rounds: number
  /** The failure of each round. By default a relay is killed, and the other one takes over if there are two. */
  readonly harm?: () => Promise<void>
}

/** Kills a relay, and starts it again after the other one, if there is one, has taken over. */
const killed = async (member: Member | undefined, isTakenOver: () => boolean) => {
  if (member === undefined) return
  await member.running.kill("SIGKILL")
  await until(isTakenOver)
  member.running = await startRelay(member.config, { cwd: member.cwd })
}

/** Starts relays with these sinks, which send their messages to servers of this process. */
const start = async (chosen: ReadonlyArray<Kind>, relays: ReadonlyArray<object>) => {
  const { targetOf, received, close } = await receiver()
  const sinks = Object.fromEntries(
    chosen.map((kind) => [
      kind,
      {
        ...{ type: kind, ...targetOf(kind), resolve: true, concurrency, ...kinds[kind] },
        alert: { after: { count: after, within: "1 hour" }, repeat: `${repeat} millis` },
      },
    ]),
  )
  const members: Array<Member> = []
  for (const journal of relays) {
    const cwd = temporaryDirectory("alerts-")
    const more = { routes: [{ name: "failures", match: [failed], to: chosen }], ...journal }
    const { config, url, admin } = await writeConfig(cwd, sinks, more)
    members.push({ cwd, config, url, admin, running: await startRelay(config, { cwd }) })
  }
  /** Asks one relay after the other until one answers 2xx, as a proxy does. */
  const asked = async (ask: (member: Member) => Promise<Response>): Promise<Response> => {
    for (;;) {
      for (const member of members) {
        const answer = await ask(member).catch(() => undefined)
        if (answer?.ok === true) return answer
      }
      await Bun.sleep(20)
    }
  }
  const get = async (path: string) => (await asked(({ admin }) => fetch(`${admin}/api/v1/${path}`))).json()
  const send = (text: string) => asked(({ url }) => post(url, text))
  /** Whether all sinks have received such a message about an account. */
  const have = (is: Message["is"], account: string): boolean =>
    new Set(received().flatMap((one) => (one.account === account && one.is === is ? one.kind : []))).size ===
    chosen.length
  const isOver = (account: string) => have("resolve", account)
  const fails = async (account: string) => {
    for (const n of flap) await send(body(account, n === flap.length ? recovered : failed, n))
    for (const n of failures) await send(body(account, failed, n))
  }
  const recovers = (account: string) => send(body(account, recovered, 0))
  /** Waits until `count` events of a sink have ended, or all that there are. Returns them with their outcomes. */
  const eventsOf = async (kind: Kind, count?: number): Promise<ReadonlyArray<Event>> => {
    let events: ReadonlyArray<Event> = []
    await until(async () => {
      events = []
      for (let next: string | undefined = ""; next !== undefined; ) {
        const before = next === "" ? "" : `&before=${encodeURIComponent(next)}`
        const page = (await get(`events?limit=1000&sink=${kind}&types=connected_account.*${before}`)) as {
          readonly events: ReadonlyArray<Event>
          readonly next?: string
        }
        events = [...events, ...page.events]
        next = page.next
      }
      events = events.map((event) => ({ ...event, sinks: event.sinks.filter(({ sink }) => sink === kind) }))
      const ended = events.filter(({ sinks }) => !["pending", "retrying"].includes(sinks[0]?.outcome ?? ""))
      return ended.length === (count ?? events.length)
    })
    return events
  }
  const alerts = async () => (await get("alerts")) as ReadonlyArray<AlertReport>
  const stop = async () => {
    for (const { running } of members) await running.kill()
    await close()
  }
  return { members, received, have, isOver, fails, recovers, eventsOf, alerts, stop }
}

/**
 * Causes a failure in each round, while a part of the accounts fails. Returns the messages, the alerts and the events.
 */
const storm = async ({ kinds: chosen, relays, rounds, harm }: Storm) => {
  const { members, received, have, isOver, fails, recovers, eventsOf, alerts, stop } = await start(chosen, relays)
  const sendAll = async (account: string) => {
    await fails(account)
    await until(() => have("reminder", account))
    await recovers(account)
  }
  const parts = Array.from({ length: rounds + 1 }, (_, part) => accounts.filter((_, n) => n % (rounds + 1) === part))
  const sendings: Array<Promise<unknown>> = []
  for (const [round, part] of parts.entries()) {
    sendings.push(Promise.all(part.map(sendAll)))
    if (round === rounds) break
    // The first messages of the alerts, their reminders, or the recoveries are in flight.
    const before = (round % 3) * part.length * chosen.length
    await until(() => received().filter(({ account }) => part.includes(account)).length > before)
    if (harm === undefined)
      await killed(members[round % members.length], () => members.length === 1 || part.every(isOver))
    else {
      await harm()
      await until(() => part.every(isOver))
    }
  }
  await Promise.all(sendings)
  await until(() => accounts.every(isOver))
  const events = new Map<Kind, ReadonlyArray<Event>>()
  for (const kind of chosen) events.set(kind, await eventsOf(kind, accounts.length * numbers.length))
  const found = { alerts: await alerts(), events }
  await stop()
  return { received: received(), ...found }
}

/** Checks the messages about an account at a sink. Returns the number of repetitions. */
const checkAccount = (
  account: string,
  of: ReadonlyArray<Message>,
  events: ReadonlyArray<Event>,
  alerts: ReadonlyArray<AlertReport>,
  mostCopies: number,
): number => {
  const ids = new Map(events.map(({ sequence, id }) => [sequence, id]))
  const states = new Map(events.map(({ id, sinks }) => [id, sinks[0]?.outcome]))
  // The failure that reaches `after` sends the alert, the recovery ends it, and all other failures are counted.
  const own = numbers.map((n) => idOf(account, n))
  const messages = [idOf(account, sending), idOf(account, 0)]
  expect(own.map((id) => [id, states.get(id)])).toEqual(
    own.map((id) => [id, messages.includes(id) ? "delivered" : "counted"]),
  )
  const found = alerts.filter(({ id }) => ids.get(id) === idOf(account, beginning))
  expect(found.map(({ status, count }) => [account, status, count])).toEqual([[account, "resolved", failures.length]])
  const sent = found[0]?.sent ?? []
  expect([sent.at(0), sent.at(-1)].map((one) => ids.get(one?.sequence ?? 0))).toEqual(messages)
  for (const [index, { action, at }] of sent.entries())
    if (action === "reminder") expect(at - (sent[index - 1]?.at ?? at)).toBeGreaterThanOrEqual(repeat)

  // Without repetitions, the messages are those in the journal.
  const once = of.filter(({ id }, index) => id === undefined || of.findIndex((one) => one.id === id) === index)
  const hasIds = of.every(({ id }) => id !== undefined)
  const shown: ReadonlyArray<string> = hasIds ? once.map(({ is }) => is) : [...new Set(of.map(({ is }) => is))]
  expect({ account, shown }).toEqual({ account, shown: hasIds ? sent.map(({ action }) => action) : [...actions] })
  for (const is of actions) {
    expect(once.filter((one) => one.is === is).length).toBeGreaterThanOrEqual(
      sent.filter(({ action }) => action === is).length,
    )
  }
  expect([account, of.at(-1)?.is]).toEqual([account, "resolve"])
  const copies = hasIds ? [...Map.groupBy(of, ({ id }) => id).values()].map(({ length }) => length) : []
  expect(Math.max(0, ...copies)).toBeLessThanOrEqual(mostCopies)
  return of.length - sent.length
}

const check = async (asked: Storm): Promise<void> => {
  const { received, alerts, events } = await storm(asked)
  // Two relays settle repeated messages before the next fault. A single relay may be killed again before that.
  const mostCopies = asked.relays.length > 1 ? 2 : 1 + asked.rounds
  for (const kind of asked.kinds) {
    const messages = received.filter((message) => message.kind === kind)
    const ofSink = alerts.filter(({ sink }) => sink === kind)
    expect([kind, ofSink.length]).toEqual([kind, accounts.length])
    const found = events.get(kind) ?? []
    const repeated = accounts.reduce(
      (sum, account) =>
        sum +
        checkAccount(
          account,
          messages.filter((one) => one.account === account),
          found,
          ofSink,
          mostCopies,
        ),
      0,
    )
    if (process.env.RELAY_ROUNDS !== undefined)
      console.log(`${kind}: ${messages.length} messages, ${repeated} repeated`)
    // A kill repeats the messages in flight, at most `concurrency`, and those whose ends are not stored yet. Ends are
    // stored every tenth of a second, so a busy machine repeats more. The lane's own limit is over a thousand.
    expect(repeated).toBeLessThanOrEqual(3 * concurrency * asked.rounds)
  }
}

/** The number of kills or failovers: `all`, or RELAY_ROUNDS for a long run. */
const rounds = (all: number): number => Number(process.env.RELAY_ROUNDS ?? all)

test(
  "a relay that is killed sends each alert, its reminders and its recovery, and counts every other failure",
  () => check({ kinds: ["alertmanager", "email"], relays: [{}], rounds: rounds(tries(6)) }),
  600_000,
)

test("a relay that is killed does so at each kind of sink", () =>
  check({ kinds: Object.keys(kinds) as ReadonlyArray<Kind>, relays: [{}], rounds: 2 }))

const journals = (url: string, schema: string) =>
  ["relay-1", "relay-2"].map((name) => ({ journal: { type: "postgres", url, schema, name } }))

suiteUnless(reasonToSkip(), "relays on PostgreSQL", () => {
  test("that take over from each other do so, too", async () => {
    const { url } = await sharedPostgres()
    await check({ kinds: ["pagerduty", "email"], relays: journals(url, "alerts"), rounds: rounds(2) })
  }, 300_000)

  test("whose PostgreSQL fails over do so, too", async () => {
    const cluster = await Cluster.make("synchronous")
    const harm = async () => {
      await cluster.failOver()
      await cluster.turn("synchronous")
    }
    await check({ kinds: ["alertmanager", "email"], relays: journals(cluster.url, "alerts"), rounds: rounds(2), harm })
    await cluster.stop()
  }, 300_000)

  test("whose PostgreSQL fails over to a standby that was behind send each recovery that the journal has", async () => {
    const cluster = await Cluster.make("asynchronous")
    const { received, have, isOver, fails, recovers, eventsOf, stop } = await start(
      ["email"],
      journals(cluster.url, "alerts"),
    )
    const all = rounds(1)
    for (let round = 0; round < all; round++) {
      const [first = "", second = "", third = ""] = [0, 1, 2].map((n) => `acct_${3 * round + n}_`)
      const alerted = (...some: ReadonlyArray<string>) => until(() => some.every((one) => have("trigger", one)))
      await Promise.all([first, second].map(fails))
      await alerted(first, second)
      await cluster.leaveBehind()
      // Only the server that is killed has these events.
      await Promise.all([recovers(second), fails(third)])
      await alerted(third)
      await until(() => isOver(second))
      await cluster.failOver()
      // The journal has the alert of the first account. It has lost the alert of the third.
      await Promise.all([first, third].map(recovers))
      await until(() => isOver(first) && isOver(third))
      if (round + 1 < all) await cluster.turn("asynchronous")
    }
    const events = await eventsOf("email")
    await stop()
    await cluster.stop()
    const recoveries = events.filter(({ id }) => id.endsWith("_0"))
    expect(recoveries.map(({ id, sinks }) => [id, sinks[0]?.outcome]).sort()).toEqual(
      Array.from({ length: all }, (_, round) => [3 * round, 3 * round + 2])
        .flat()
        .map((n) => [idOf(`acct_${n}_`, 0), "delivered"])
        .sort(),
    )
    expect(events.filter(({ type }) => type === failed).length).toBe(all * 2 * (failures.length + flap.length - 1))
    const copies = [...Map.groupBy(received(), ({ id }) => id).values()].map(({ length }) => length)
    expect(Math.max(...copies)).toBeLessThanOrEqual(2)
    if (process.env.RELAY_ROUNDS !== undefined)
      console.log(`email: ${received().length} messages, ${received().length - copies.length} repeated`)
  }, 300_000)
})
