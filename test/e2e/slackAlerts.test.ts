/**
 * Alerts as Slack messages that are edited, by the whole program. It is killed between a message and its settlement.
 */
import { expect, test } from "bun:test"
import { deliver, envelope, until, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"
import { tries } from "../lib/tries.ts"
import { reasonToSkip, sharedPostgres } from "../parts/Postgres.ts"
import { botToken, FakeSlack } from "../sinks/alerts/slack/fakeSlack.ts"

const accounts = Array.from({ length: 12 }, (_, n) => `acct_${n}`)

/** Kills the relay `kills` times, each time after a few messages. Returns the workspace. */
const storm = async (journal: object, kills: number) => {
  const slack = new FakeSlack()
  // Slack needs about this long. Meanwhile the relay stores the end of the previous message.
  slack.latency = 50
  const cwd = temporaryDirectory("slack-alerts-")
  const chat = {
    ...{ type: "slack", token: botToken, channel: "C1", api: slack.api, resolve: true },
    alert: { update: "1 second" },
  }
  const types = ["connected_account.refresh_failed"]
  const more = { routes: [{ name: "failures", match: types, to: "chat" }], ...journal }
  const { config, url } = await writeConfig(cwd, { chat }, more)
  let current = await startRelay(config, { cwd })
  let sequence = 0
  /** Sends a delivery until it is accepted, as the sender does. */
  const send = (account: string, type: string) => {
    sequence += 1
    const object = { id: `ca_${account}` }
    const text = envelope(`evt_${account}_${sequence}`, { type, object }, { account_id: account })
    return until(() =>
      deliver(url, text).then(
        (status) => status < 300,
        () => false,
      ),
    )
  }
  const sendAll = async (type: string) => {
    for (const account of accounts) await send(account, type)
  }
  const posts = () => slack.calls.filter((call) => call === "chat.postMessage: ok").length
  const sending = sendAll("connected_account.refresh_failed")
  for (let kill = 1; kill <= kills; kill++) {
    await until(() => posts() >= (kill * accounts.length) / kills)
    await current.kill("SIGKILL")
    current = await startRelay(config, { cwd })
  }
  await sending
  const isShown = (account: string, how: RegExp) =>
    slack.inChannel.some(({ text }) => text.includes(`(${account})`) && how.test(text))
  await sendAll("connected_account.refresh_failed")
  await until(() => accounts.every((account) => isShown(account, /^2 × /)))
  await sendAll("connected_account.reconnected")
  await until(() => accounts.every((account) => isShown(account, /^Resolved: 2 × /)))
  await current.kill()
  await slack.close()
  return slack
}

const check = (slack: FakeSlack, kills: number): void => {
  const { inChannel } = slack
  // After a kill, a message may be repeated if its delivery was not stored. Then the first message stays as it was.
  expect(inChannel.length).toBeLessThanOrEqual(accounts.length + 2 * kills)
  const resolved = inChannel.filter(({ text }) => text.startsWith("Resolved: "))
  expect(resolved.map(({ text }) => /\((acct_\d+)\)/.exec(text)?.[1]).sort()).toEqual(accounts.toSorted())
  for (const { ts, edits } of resolved) {
    expect(edits).toBeGreaterThanOrEqual(2)
    expect(slack.repliesTo(ts).length).toBeGreaterThanOrEqual(3)
  }
}

test("a relay that is killed changes the message of each alert until its recovery", async () => {
  const kills = tries(8)
  const slack = await storm({}, kills)
  check(slack, kills)
})

suiteUnless(reasonToSkip(), "a relay on PostgreSQL that is killed", () => {
  test("changes the message of each alert until its recovery", async () => {
    const { url } = await sharedPostgres()
    const slack = await storm({ journal: { type: "postgres", url, schema: "slack", name: "relay-1" } }, 3)
    check(slack, 3)
  })
})
