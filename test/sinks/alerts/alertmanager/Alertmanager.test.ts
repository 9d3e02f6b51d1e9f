/** Alerts as Alertmanager receives them, at a stand-in and at a real server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Schema } from "effect"
import type { Entry } from "../../../../src/event/Event.ts"
import { Alertmanager, AlertmanagerConfig } from "../../../../src/sinks/alerts/alertmanager/Alertmanager.ts"
import { it } from "../../../lib/effect.ts"
import { suiteUnless } from "../../../lib/lacking.ts"
import { freePort } from "../../../lib/port.ts"
import { temporaryDirectory } from "../../../lib/temporaryRoot.ts"
import { ServerProcess } from "../../../parts/ServerProcess.ts"
import { bytes, entry, envelope, reasonOf } from "../../samples.ts"
import { openAlert } from "../alertContract.ts"
import { fields, list, local } from "../localService.ts"
import { alertmanager } from "./alertmanagerService.ts"

const event = (sequence: number, type: string, receivedAt: number, id = "cna_1"): Entry => {
  const body = bytes(JSON.stringify({ ...envelope(sequence, { id }), data: { type, object: { id } } }))
  return entry(sequence, { type, body, receivedAt })
}
const failed = "connected_account.refresh_failed"
const recovered = "connected_account.reconnected"
const key = `${failed}/acct_1/cna_1`

const minute = 60_000
const day = 24 * 60 * minute

/** Sends batches to a stand-in. Returns the alerts that it accepted. */
const sent = Effect.fnUntraced(function* (
  batches: ReadonlyArray<ReadonlyArray<Entry>>,
  config: object = {},
  digestKey?: string,
) {
  const alerts: Array<Readonly<Record<string, unknown>>> = []
  const { url } = yield* local(alertmanager, ({ body }) => {
    alerts.push(...list(JSON.parse(Buffer.from(body).toString("utf8"))).map(fields))
  })
  const sink = yield* openAlert("alertmanager", { url: `${url}/api/v2/alerts`, ...config }, digestKey)
  for (const batch of batches) expect(yield* reasonOf(sink.send(batch))).toBeUndefined()
  return alerts
})

describe("an alert for Alertmanager", () => {
  it.live("ends a day after the attempt, so that it lasts longer than Alertmanager's own time-out", function* () {
    const before = Date.now()
    const received = before - 3 * day
    const [alert] = yield* sent([[event(1, failed, received)]])
    expect(alert?.startsAt).toBe(new Date(received).toISOString())
    expect(Date.parse(String(alert?.endsAt))).toBeGreaterThanOrEqual(before + day)
  })

  it.live("ends a day after its receipt, if the clock was set back since then", function* () {
    const received = Date.now() + 3 * day
    const [alert] = yield* sent([[event(1, failed, received)]], { resolveAfter: "1 day" })
    expect(Date.parse(String(alert?.endsAt))).toBe(received + day)
  })

  it.live("is ended by its recovery a minute before that, without a start that could be later", function* () {
    const now = Date.now()
    const config = { resolve: true, labels: { alertname: "{{type}}", team: "booking-eu" } }
    const [alert, resolved] = yield* sent([[event(1, failed, now)], [event(2, recovered, now + 5)]], config)
    expect(alert?.labels).toEqual({ alertname: failed, team: "booking-eu", key })
    expect(resolved?.labels).toEqual(fields(alert?.labels))
    expect(resolved).not.toHaveProperty("startsAt")
    expect(Date.parse(String(resolved?.endsAt))).toBe(now + 5 - minute)
  })

  it.live("of a digest has the labels that the digest's events share, and a name in any case", function* () {
    const now = Date.now()
    const batch = [event(1, failed, now, "cna_1"), event(2, "appointment.meeting.create_failed", now + 1, "apt_1")]
    const [byType] = yield* sent([batch], {}, "{{type}}/{{account_id}}")
    expect(byType?.labels).toEqual({
      alertname: "appointment.meeting.create_failed",
      account: "acct_1",
      key: "appointment.meeting.create_failed/acct_1",
    })
    const [byAccount] = yield* sent([batch], {}, "{{account_id}}")
    expect(byAccount?.labels).toEqual({ alertname: "relay", account: "acct_1", key: "acct_1" })
    expect(fields(byAccount?.annotations).summary).toStartWith("2 events, the last: ")
  })
})

describe("the config of an Alertmanager", () => {
  const decode = (config: object) =>
    Schema.decodeUnknownExit(AlertmanagerConfig)({ url: "http://127.0.0.1:9093/api/v2/alerts", ...config })

  test("refuses names of labels that Alertmanager refuses, and the relay's own", () => {
    for (const name of ["host.keyword", "vmagent-ha", "1st", "__name", "", "key"]) {
      expect([name, String(decode({ labels: { [name]: "x" } }))]).toEqual([
        name,
        expect.stringContaining("label's name"),
      ])
    }
    expect(decode({ labels: { severity: "critical", _team: "eu-west/1" } })._tag).toBe("Success")
  })

  test("warns of a label that would keep a recovery from its alert", () => {
    const doubted = (labels: object) => {
      const exit = decode({ labels })
      return exit._tag === "Success" ? (Alertmanager.doubts?.(exit.value) ?? []).map(({ path }) => path) : exit
    }
    expect(doubted({ alertname: "{{type}}", team: "eu", object: "{{/data/object/id}}" })).toEqual([])
    expect(doubted({ why: "{{/data/object/failure/reason}}", at: "{{created_at}}" })).toEqual([
      ["labels", "why"],
      ["labels", "at"],
    ])
  })
})

const reasonToSkip = (): string | undefined => {
  if (Bun.which("prometheus-alertmanager") === null || Bun.which("amtool") === null) {
    return "it needs Alertmanager (apt-get install prometheus-alertmanager)"
  }
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs Alertmanager"
}

suiteUnless(reasonToSkip(), "Alertmanager itself", () => {
  let address = ""
  let server: ServerProcess

  beforeAll(async () => {
    address = `http://127.0.0.1:${await freePort()}`
    const home = mkdtempSync(join(temporaryDirectory("alertmanager-"), "home-"))
    const file = join(home, "alertmanager.yml")
    writeFileSync(file, "route: { receiver: nobody }\nreceivers: [{ name: nobody }]\nglobal: { resolve_timeout: 1s }\n")
    server = new ServerProcess({
      name: "Alertmanager",
      home,
      command: [
        "prometheus-alertmanager",
        `--config.file=${file}`,
        `--storage.path=${join(home, "data")}`,
        `--web.listen-address=${new URL(address).host}`,
        "--cluster.listen-address=",
      ],
      isUp: () =>
        fetch(`${address}/-/ready`).then(
          ({ ok }) => ok,
          () => false,
        ),
    })
    await server.start()
  }, 60_000)
  afterAll(() => server?.stop())

  /** The alerts that fire, by their `key`, as amtool shows them. */
  const firing = async (): Promise<ReadonlyArray<unknown>> => {
    const found = Bun.spawn(["amtool", `--alertmanager.url=${address}`, "alert", "query", "--output=json"])
    return list(JSON.parse(await new Response(found.stdout).text()))
      .map((alert) => fields(fields(alert).labels).key)
      .toSorted()
  }

  it.live("fires an alert for each failure, and resolves the one whose recovery comes", function* () {
    const sink = yield* openAlert("alertmanager", { url: `${address}/api/v2/alerts`, resolve: true })
    const now = Date.now()
    const other = `${failed}/acct_1/${'cna "2"/ü'.replace("/", "%2F")}`
    const failures = [event(1, failed, now - 5 * minute), event(2, failed, now, 'cna "2"/ü'), event(3, failed, now)]
    for (const one of failures) expect(yield* reasonOf(sink.send([one]))).toBeUndefined()
    expect(yield* Effect.promise(firing)).toEqual([other, key].toSorted())
    // The first recovery was received at the same time as its failure. Alertmanager never had the alert of the second.
    for (const one of [event(4, recovered, now), event(5, recovered, now, "cna_3")]) {
      expect(yield* reasonOf(sink.send([one]))).toBeUndefined()
    }
    expect(yield* Effect.promise(firing)).toEqual([other])
    expect(yield* reasonOf(sink.send([event(6, failed, now + 1)]))).toBeUndefined()
    expect(yield* Effect.promise(firing)).toEqual([other, key].toSorted())
  })

  it.live("resolves an alert although this machine's clock is half a minute ahead", function* () {
    const sink = yield* openAlert("alertmanager", { url: `${address}/api/v2/alerts`, resolve: true })
    const ahead = Date.now() + minute / 2
    expect(yield* reasonOf(sink.send([event(1, failed, ahead, "cna_ahead")]))).toBeUndefined()
    expect(yield* Effect.promise(firing)).toContain(`${failed}/acct_1/cna_ahead`)
    expect(yield* reasonOf(sink.send([event(2, recovered, ahead, "cna_ahead")]))).toBeUndefined()
    expect(yield* Effect.promise(firing)).not.toContain(`${failed}/acct_1/cna_ahead`)
  })

  it.live("is misconfigured at an address without its API", function* () {
    const elsewhere = yield* openAlert("alertmanager", { url: `${address}/api/v2/alert` })
    expect(yield* reasonOf(elsewhere.send([event(1, failed, Date.now())]))).toMatchObject({
      _tag: "SinkMisconfigured",
      message: expect.stringContaining('"url" must end in /api/v2/alerts'),
    })
  })
})
