/** Failures of many accounts through the whole program, which is killed again and again. */
import { expect, test } from "bun:test"
import { deliver, envelope, until, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { tries } from "../lib/tries.ts"
import { reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"

const accounts = Array.from({ length: 40 }, (_, n) => `acct_${n}`)
/** An alert begins with the third failure. */
const failures = [1, 2, 3, 4, 5]

const body = (account: string, type: string, n: number): string =>
  envelope(`evt_${account}_${n}`, { type, object: { id: `ca_${account}` } }, { account_id: account })

/** Kills the relay while an Alertmanager receives its messages. Returns those, and how the events ended. */
const storm = async (journal: object, kills: number) => {
  const cwd = temporaryDirectory("alerts-")
  const received: Array<{ readonly account: string; readonly is: "trigger" | "resolve" }> = []
  const alertmanager = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const [alert] = (await request.json()) as ReadonlyArray<{ labels: { account: string }; startsAt?: string }>
      if (alert !== undefined) {
        received.push({ account: alert.labels.account, is: alert.startsAt === undefined ? "resolve" : "trigger" })
      }
      return new Response()
    },
  })
  const oncall = {
    ...{ type: "alertmanager", url: `${alertmanager.url}api/v2/alerts`, resolve: true, concurrency: 8 },
    alert: { after: { count: 3, within: "1 hour" }, repeat: "1 hour" },
  }
  const types = ["connected_account.refresh_failed"]
  const more = { routes: [{ name: "failures", match: types, to: "oncall" }], ...journal }
  const { config, url, admin } = await writeConfig(cwd, { oncall }, more)
  let current = await startRelay(config, { cwd })
  /** Sends until it is accepted, as the sender does. */
  const send = (text: string) =>
    until(() =>
      deliver(url, text).then(
        (status) => status < 300,
        () => false,
      ),
    )
  const sending = Promise.all(
    accounts.map(async (account) => {
      for (const n of failures) {
        await send(body(account, "connected_account.refresh_failed", n))
        await Bun.sleep(kills * 40)
      }
      await send(body(account, "connected_account.reconnected", 0))
    }),
  )
  for (let kill = 0; kill < kills; kill++) {
    await until(() => received.length > kill * 8)
    await current.kill("SIGKILL")
    current = await startRelay(config, { cwd })
  }
  await sending
  const resolved = () => new Set(received.flatMap(({ account, is }) => (is === "resolve" ? account : [])))
  await until(() => resolved().size === accounts.length)
  const ends = async () => {
    const page = (await (await fetch(`${admin}/api/v1/events?limit=1000`)).json()) as {
      readonly events: ReadonlyArray<{ readonly sinks: ReadonlyArray<{ readonly outcome: string }> }>
    }
    return Object.fromEntries(
      [...Map.groupBy(page.events, ({ sinks }) => sinks[0]?.outcome ?? "unrouted")].map(([is, all]) => [
        is,
        all.length,
      ]),
    )
  }
  await until(async () => {
    const { delivered = 0, counted = 0 } = await ends()
    return delivered + counted === accounts.length * (failures.length + 1)
  })
  const counts = await ends()
  await current.kill()
  await alertmanager.stop(true)
  return { received, counts }
}

const check = ({ received, counts }: Awaited<ReturnType<typeof storm>>, kills: number): void => {
  for (const account of accounts) {
    const of = received.filter((message) => message.account === account).map(({ is }) => is)
    // A kill may repeat the messages whose delivery was not stored yet, in their order.
    expect([account, of.filter((is, at) => is !== of[at - 1])]).toEqual([account, ["trigger", "resolve"]])
    expect(of.length).toBeLessThanOrEqual(2 + 2 * kills)
  }
  expect(counts).toEqual({ delivered: 2 * accounts.length, counted: (failures.length - 1) * accounts.length })
}

test("a relay that is killed sends each alert and its recovery, and counts every other failure", async () => {
  const kills = tries(8)
  check(await storm({}, kills), kills)
})

suiteUnless(reasonToSkip(), "a relay on PostgreSQL that is killed", () => {
  test("sends each alert and its recovery, and counts every other failure", async () => {
    const { url } = await sharedPostgres()
    check(await storm({ journal: { type: "postgres", url, schema: "alerts", name: "relay-1" } }, 3), 3)
  })
})
