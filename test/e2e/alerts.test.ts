/**
 * Failures of many accounts and their recoveries through the whole program, at each kind of sink that sends alerts,
 * while relays are killed. Of two relays on one PostgreSQL the other takes over. The long run: RELAY_ROUNDS=20.
 */
import { expect, test } from "bun:test"
import { deliver, envelope, until, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { tries } from "../lib/tries.ts"
import { reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"

const accounts = Array.from({ length: 40 }, (_, n) => `acct_${n}_`)
/** An alert begins with the third failure. */
const failures = [1, 2, 3, 4, 5]
const [failed, recovered] = ["connected_account.refresh_failed", "connected_account.reconnected"]

const body = (account: string, type: string, n: number): string =>
  envelope(`evt_${account}${n}`, { type, object: { id: `ca_${account}` } }, { account_id: account })

/** The sinks by their types, without their common keys. */
const kinds = {
  alertmanager: {},
  pagerduty: { routingKey: "0123456789abcdef0123456789abcdef" },
  slack: {},
  teams: {},
  discord: {},
  http: {
    format: "template",
    body: { is: "trigger", account: "{{account_id}}", type: "{{type}}" },
    resolve: { body: { is: "resolve", account: "{{account_id}}", type: "{{type}}" } },
  },
} as const
type Kind = keyof typeof kinds

interface Message {
  readonly kind: Kind
  readonly account: string
  readonly is: "trigger" | "resolve"
}

/** Whether a message is about the recovery. Alertmanager's has no beginning; all others name the event's type. */
const isEnd = (kind: Kind, text: string): boolean =>
  kind === "alertmanager"
    ? !text.includes('"startsAt"')
    : kind === "pagerduty"
      ? text.includes('"event_action":"resolve"')
      : text.includes(recovered)

/** Receives the messages of all sinks, each below its kind. */
const receiver = () => {
  const received: Array<Message> = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const kind = new URL(request.url).pathname.split("/")[1] as Kind
      // Discord's text escapes underscores.
      const text = (await request.text()).replaceAll("\\", "")
      received.push({
        kind,
        account: /acct_\d+_/.exec(text)?.[0] ?? text,
        is: isEnd(kind, text) ? "resolve" : "trigger",
      })
      return kind === "slack" ? new Response("ok") : Response.json({ status: "success" }, { status: 202 })
    },
  })
  return { received, server }
}

interface Storm {
  readonly kinds: ReadonlyArray<Kind>
  /** The journal of each relay. */
  readonly relays: ReadonlyArray<object>
  readonly kills: number
}

/** Kills a relay while each part of the accounts fails. Returns the messages, and how the events ended at each sink. */
const storm = async ({ kinds: chosen, relays, kills }: Storm) => {
  const { received, server } = receiver()
  const sinks = Object.fromEntries(
    chosen.map((kind) => [
      kind,
      {
        ...{ type: kind, url: `${server.url}${kind}/api/v2/alerts`, resolve: true, concurrency: 8 },
        ...kinds[kind],
        alert: { after: { count: 3, within: "1 hour" }, repeat: "1 hour" },
      },
    ]),
  )
  const members: Array<{
    cwd: string
    config: string
    url: string
    admin: string
    running: Awaited<ReturnType<typeof startRelay>>
  }> = []
  for (const journal of relays) {
    const cwd = temporaryDirectory("alerts-")
    const more = { routes: [{ name: "failures", match: [failed], to: chosen }], ...journal }
    const { config, url, admin } = await writeConfig(cwd, sinks, more)
    members.push({ cwd, config, url, admin, running: await startRelay(config, { cwd }) })
  }
  /** Sends to one relay after another until it is accepted, as the sender does by way of a proxy. */
  const send = (text: string) =>
    until(async () => {
      for (const { url } of members)
        if (
          await deliver(url, text).then(
            (status) => status < 300,
            () => false,
          )
        )
          return true
      return false
    })
  const sendAll = async (account: string) => {
    for (const n of failures) await send(body(account, failed, n))
    await send(body(account, recovered, 0))
  }
  const isOver = (account: string): boolean =>
    chosen.every((kind) =>
      received.some((message) => message.kind === kind && message.account === account && message.is === "resolve"),
    )
  const parts = Array.from({ length: kills + 1 }, (_, part) => accounts.filter((_, n) => n % (kills + 1) === part))
  for (const [round, part] of parts.entries()) {
    const sending = Promise.all(part.map(sendAll))
    const member = members[round % members.length]
    if (round < kills && member !== undefined) {
      await until(() => received.some(({ account }) => part.includes(account)))
      await member.running.kill("SIGKILL")
      // The other relay takes over before this one is back.
      if (members.length > 1) await until(() => part.every(isOver))
      member.running = await startRelay(member.config, { cwd: member.cwd })
    }
    await sending
  }
  await until(() => accounts.every(isOver))
  const ends = async (kind: Kind) => {
    const page = (await (await fetch(`${members[0]?.admin}/api/v1/events?limit=1000`)).json()) as {
      readonly events: ReadonlyArray<{
        readonly sinks: ReadonlyArray<{ readonly sink: string; readonly outcome: string }>
      }>
    }
    const outcomes = page.events.flatMap(({ sinks }) => sinks.find(({ sink }) => sink === kind)?.outcome ?? [])
    return Object.fromEntries([...Map.groupBy(outcomes, (outcome) => outcome)].map(([is, all]) => [is, all.length]))
  }
  const counts: Array<readonly [Kind, unknown]> = []
  for (const kind of chosen) {
    // A page may be of fewer events than there are, if the search takes long.
    await until(async () => {
      const found = await ends(kind)
      const isWhole = (found.delivered ?? 0) + (found.counted ?? 0) === accounts.length * (failures.length + 1)
      if (isWhole) counts.push([kind, found])
      return isWhole
    })
  }
  for (const { running } of members) await running.kill()
  await server.stop(true)
  return { received, counts }
}

const check = async (asked: Storm): Promise<void> => {
  const { received, counts } = await storm(asked)
  for (const kind of asked.kinds) {
    for (const account of accounts) {
      const of = received.filter((message) => message.kind === kind && message.account === account).map(({ is }) => is)
      // A kill may repeat the messages whose delivery was not stored yet, in their order.
      const told = of.filter((is, at) => is !== of[at - 1])
      expect([kind, account, told]).toEqual([kind, account, ["trigger", "resolve"]])
      expect(of.length).toBeLessThanOrEqual(2 + 2 * asked.kills)
    }
  }
  const each = { delivered: 2 * accounts.length, counted: (failures.length - 1) * accounts.length }
  expect(counts).toEqual(asked.kinds.map((kind) => [kind, each]))
}

test("a relay that is killed sends each alert and its recovery, and counts every other failure", () =>
  check({ kinds: ["alertmanager"], relays: [{}], kills: Number(process.env.RELAY_ROUNDS ?? tries(8)) }))

test("a relay that is killed does so at each kind of sink", () =>
  check({ kinds: Object.keys(kinds) as ReadonlyArray<Kind>, relays: [{}], kills: 2 }))

suiteUnless(reasonToSkip(), "relays on PostgreSQL", () => {
  test("that take over from each other five times send each alert and its recovery, and count every other failure", async () => {
    const { url } = await sharedPostgres()
    const relays = ["relay-1", "relay-2"].map((name) => ({
      journal: { type: "postgres", url, schema: "alerts", name },
    }))
    await check({ kinds: ["alertmanager", "pagerduty"], relays, kills: 5 })
  }, 300_000)
})
