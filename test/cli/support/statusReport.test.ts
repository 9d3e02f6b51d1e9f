import { describe, expect, test } from "bun:test"
import { byLevel, health, levelOf, states } from "../../../src/admin/status/Health.ts"
import type { Lane, Status } from "../../../src/admin/status/Status.ts"
import { render } from "../../../src/cli/reports/statusReport.ts"

const lane = (name: string, more: Partial<Lane> = {}): Lane => ({
  name,
  type: "file",
  condition: "running",
  message: "",
  backlog: 0,
  retrying: 0,
  deadLetters: 0,
  oldestAt: 0,
  ...more,
})

const status = (lanes: ReadonlyArray<Lane>, journal: Partial<Status["journal"]> = {}, expires?: number): Status => ({
  version: "1.2.3",
  configFile: "relay.config.json",
  startedAt: 0,
  now: 300_000,
  caller: { name: "local", role: "operate" },
  draining: false,
  notReady: "",
  config: { loadedAt: 0, refusal: "" },
  totals: { received: 0, delivered: 0, refused: 0, failed: 0 },
  hour: { since: 0, received: 0, delivered: 0, refused: 0, failed: 0 },
  work: [],
  journal: {
    health: "ok",
    message: "",
    path: "journal.db",
    head: 12,
    tail: 1,
    usedBytes: 2048,
    maxBytes: 1024 ** 3,
    walBytes: 0,
    freeDiskBytes: 0,
    filling: 0,
    ...journal,
  },
  webhooks: [
    {
      name: "scheduling",
      secrets: [
        { name: "2026-05", lastUsed: 290_000, ...(expires !== undefined && { expires }) },
        { name: "2026-11", lastUsed: 0 },
      ],
    },
  ],
  certificates: [],
  refusals: [],
  lanes,
})

const uncoloured = (_: string, text: string) => text
const rendered = (found: Status) => render(found, uncoloured, Number.POSITIVE_INFINITY)

describe("status", () => {
  test("is critical if nothing is delivered until a person acts, and a warning if it can wait", () => {
    const levels = (found: Status) => [health(found).level, ...health(found).problems.map(({ state }) => state)]
    const ofLane = (more: Partial<Lane>) => levels(status([lane("a", more)]))
    expect(ofLane({})).toEqual(["ok"])
    expect(ofLane({ condition: "misconfigured" })).toEqual(["critical", "sink-misconfigured"])
    expect(ofLane({ condition: "blocked" })).toEqual(["critical", "sink-blocked"])
    expect(ofLane({ condition: "failed" })).toEqual(["critical", "sink-failed"])
    expect(ofLane({ condition: "orphaned", backlog: 1 })).toEqual(["critical", "sink-orphaned"])
    expect(ofLane({ condition: "orphaned" })).toEqual(["ok"])
    expect(ofLane({ condition: "orphaned", deadLetters: 1 })).toEqual(["warning", "dead-letters"])
    expect(ofLane({ condition: "waiting", deadLetters: 1 })).toEqual(["warning", "sink-waiting", "dead-letters"])
    expect(ofLane({ condition: "paused" })).toEqual(["warning", "sink-paused"])
    const ofJournal = (journal: Partial<Status["journal"]>) => levels(status([], journal))
    expect(ofJournal({ health: "full", filling: 95 })).toEqual(["critical", "journal-full"])
    expect(ofJournal({ health: "broken" })).toEqual(["critical", "journal-broken"])
    expect(ofJournal({ health: "red" })).toEqual(["critical", "journal-red"])
    expect(ofJournal({ filling: 95 })).toEqual(["critical", "journal-nearly-full"])
    expect(ofJournal({ filling: 80 })).toEqual(["warning", "journal-filling"])
    expect(ofJournal({ filling: 50 })).toEqual(["ok"])
    expect(ofJournal({ message: "The wall clock was set by 9 s" })).toEqual(["warning", "journal-warning"])
    const whole = (more: Partial<Status>) => levels({ ...status([]), ...more })
    expect(whole({ notReady: "file descriptors are used up" })).toEqual(["critical", "not-ready"])
    expect(whole({ notReady: "draining", draining: true })).toEqual(["ok", "stopping"])
    expect(whole({ config: { loadedAt: 0, refusal: "wrong" } })).toEqual(["warning", "reload-refused"])
  })

  test("puts the worst problem first, whatever its subject", () => {
    const found = status([lane("a", { deadLetters: 1 }), lane("b", { condition: "failed" })], { filling: 80 }, 300_000)
    const { problems } = health(found)
    expect(problems.map(({ state }) => state)).toEqual([
      "sink-failed",
      "journal-filling",
      "dead-letters",
      "secret-expired",
    ])
    expect(Object.values(states).toSorted(byLevel)[0]).toBe("critical")
    expect(problems.map(levelOf)).toEqual(["critical", "warning", "warning", "warning"])
  })

  test("shows the worst problem first, and its remedy", () => {
    const text = rendered(
      status(
        [
          lane("a-fine"),
          lane("b-away", { condition: "waiting", message: "connection refused", backlog: 3, oldestAt: 60_000 }),
          lane("c-wrong", { condition: "misconfigured", message: "the sink answers 401" }),
        ],
        { health: "red", message: "sequence 7 was damaged\nsequence 9 was damaged" },
      ),
    )
    const order = [
      "critical  journal: red",
      "relay journal acknowledge",
      "  more: relay runbook journal-red",
      "critical  c-wrong: misconfigured; the sink answers 401\n  what to do: fix the sink, and the lane resumes by itself; or fix its config, then relay reload\n  more: relay runbook sink-misconfigured",
      "warning  b-away: waiting; connection refused\n  what to do: nothing: the relay retries automatically; relay lanes resume b-away retries immediately",
      "relay 1.2.3",
    ]
    const places = order.map((words) => text.indexOf(words))
    expect(places).not.toContain(-1)
    expect(places).toEqual(places.toSorted((a, b) => a - b))
    expect(text).toMatch(/^ {2}b-away +file +waiting +3 +4 min +- +0 +0$/m)
  })

  test("shows why events fail before the lane pauses, retrying or not, and nothing once they are delivered", () => {
    const failing = lane("lake", { message: "answered 500", backlog: 2 })
    expect(rendered(status([failing]))).toStartWith(
      "warning  lake: 2 events not delivered; the last attempt failed: answered 500\n  more: relay runbook sink-failing\n\nrelay",
    )
    expect(health(status([{ ...failing, backlog: 0 }]))).toEqual({ level: "ok", problems: [] })
  })

  test("shows why an event is retried for more than a minute while others are delivered", () => {
    const message = "topic x.client: there is no such topic: make it"
    const at = (at: number) =>
      lane("lake", { backlog: 24, retrying: 24, oldestAt: 60_000, lastFailure: { at, message } })
    expect(rendered(status([at(120_000)]))).toStartWith(
      `warning  lake: 24 events not delivered, other events are; the last attempt that failed: ${message}\n`,
    )
    expect(health(status([at(119_999)]))).toEqual({ level: "ok", problems: [] })
  })

  test("lists the refused requests of the last hour, with reasons and remedies", () => {
    const refusals = {
      webhook: "scheduling",
      reason: "signatureMismatch",
      status: 401,
      count: 1_200,
      lastAt: 290_000,
      lastRequestId: "abc-1",
      lastFrom: "203.0.113.7",
      what: "the signature does not match",
      advice: "compare the secrets",
      details: [],
    } as const
    const paths = ["/a", "/b", "/c", "/d"].map((detail) => ({ detail, count: 2, lastAt: 0 }))
    const unknown = {
      ...refusals,
      webhook: "",
      count: 9,
      status: 404,
      what: "no webhook has this path",
      details: paths,
    }
    const found = { ...status([lane("lake")]), refusals: [refusals, unknown] }
    expect(health(found).level).toBe("warning")
    expect(health({ ...found, refusals: [unknown] }).level).toBe("ok")
    expect(rendered(found)).toStartWith(
      [
        "warning  scheduling: 1,200 refused with 401 since the start 5 min ago, the last 10 s ago from 203.0.113.7: the signature does not match",
        "  what to do: compare the secrets",
        "  more: relay runbook deliveries-refused",
        "",
        "note  no webhook: 9 refused with 404 since the start 5 min ago, the last 10 s ago from 203.0.113.7: no webhook has this path: /a (2), /b (2), /c (2), others (3)",
        "  what to do: compare the secrets",
        "  more: relay runbook unknown-path",
        "",
        "relay",
      ].join("\n"),
    )
  })

  test("takes a few requests of strangers for a note, and a sender that is refused for critical", () => {
    const refused = (reason: string, count: number) => {
      const one = {
        webhook: "scheduling",
        reason,
        status: 401,
        count,
        lastAt: 5_000_000,
        lastRequestId: "abc-1",
        lastFrom: "203.0.113.7",
      }
      const found = { ...status([lane("lake")]), now: 5_000_000 }
      return health({ ...found, refusals: [{ ...one, what: "", advice: "", details: [] }] } as typeof found)
    }
    expect(refused("method", 1_000).level).toBe("ok")
    expect(refused("signatureMissing", 1).problems.map(({ state }) => state)).toEqual(["stranger-refused"])
    expect(refused("signatureMissing", 10).level).toBe("warning")
    expect(refused("unreadable", 9).problems.map(({ state }) => state)).toEqual(["stranger-refused"])
    expect(refused("unreadable", 10).problems.map(({ state }) => state)).toEqual(["deliveries-refused"])
    expect(refused("signatureMismatch", 9).level).toBe("warning")
    // No delivery has been verified for ten minutes.
    expect(refused("signatureMismatch", 10).problems.map(({ state }) => state)).toEqual(["signatures-fail"])
    expect(refused("signatureExpired", 1).level).toBe("critical")
    expect(refused("method", 1).problems[0]?.lines[0]).toContain(" in the last hour, ")
  })

  test("of a healthy relay is one line", () => {
    expect(rendered(status([lane("lake"), lane("_quarantine")]))).toBe(
      [
        "relay 1.2.3 with relay.config.json, up 5 min",
        "journal ok: 12 entries so far, 2.0 KiB of 1.0 GiB",
        "since 00:00 UTC: 0 received, 0 delivered, 0 refused, 0 failed attempts",
        "",
        "  SINK  TYPE  STATE    BACKLOG  OLDEST  LATENCY  RETRYING  DEAD LETTERS",
        "  lake  file  running  0        -       -        0         0",
        "",
        "  WEBHOOK     SECRET   LAST SIGNED         EXPIRES",
        "  scheduling  2026-05  10 s ago            -",
        "  scheduling  2026-11  no recent delivery  -",
      ].join("\n"),
    )
  })

  test("shows the latency of a sink as a bound, because deliveries are counted in buckets", () => {
    const shown = (latency: Lane["latency"]) => rendered(status([{ ...lane("lake"), ...(latency && { latency }) }]))
    expect(shown({ millis: 60_000 })).toContain("lake  file  running  0        -       ≤ 60 s   0")
    expect(shown({ millis: 86_400_000, isAbove: true })).toContain("lake  file  running  0        -       > 24 h   0")
  })

  test("warns of a secret that expires soon and shows its last use, and is critical if none is left", () => {
    const day = 86_400_000
    const at = (expires: number) => status([lane("lake")], {}, expires)
    expect(rendered(at(300_000 + 15 * day))).toMatch(/^relay 1\.2\.3/)
    expect(rendered(at(300_000 + 10 * day))).toStartWith(
      "warning  scheduling: the secret 2026-05 expires in 10 d; it signed 10 s ago\n  what to do: make the sender sign with its successor, 2026-11\n",
    )
    const rotated = (...secrets: Status["webhooks"][number]["secrets"]) =>
      rendered({ ...at(0), webhooks: [{ name: "hooks", secrets }] })
    const old = { name: "old", expires: 300_000 + day, lastUsed: 280_000 }
    expect(rotated(old)).toContain("what to do: add its successor to the config")
    expect(rotated(old, { name: "new", lastUsed: 270_000 })).toContain("sign with its successor, new")
    expect(rotated(old, { name: "older", expires: old.expires - 1, lastUsed: 1 })).toContain("add its successor")
    expect(rotated(old, { name: "new", lastUsed: 290_000 })).toStartWith("relay 1.2.3")
    expect(rendered(at(300_000))).toStartWith("warning  scheduling: the secret 2026-05 has expired")
    expect(health(at(300_000)).level).toBe("warning")
    const shut = { ...at(0), webhooks: [{ name: "hooks", secrets: [{ name: "old", expires: 300_000, lastUsed: 0 }] }] }
    expect(health(shut).level).toBe("critical")
    expect(rendered(shut)).toStartWith("critical  hooks: every secret has expired, so every delivery is refused")
    expect(rendered({ ...shut, journal: { ...shut.journal, health: "red" } })).toStartWith("critical  journal: red")
  })

  test("warns of a webhook with a silent sender, and shows since when", () => {
    const quiet = {
      ...status([]),
      now: 10_800_000,
      webhooks: [{ name: "hooks", secrets: [{ name: "main", lastUsed: 0 }], silentSince: 3_600_000 }],
    }
    expect(health(quiet).level).toBe("warning")
    expect(rendered(quiet)).toStartWith(
      "warning  hooks: its sender is silent: no delivery for 2 h, since 1970-01-01T01:00:00.000Z",
    )
  })

  test("warns of a certificate that expires soon, is critical with an expired one, and lists all of them", () => {
    const day = 86_400_000
    const at = (notAfter: number): Status => ({
      ...status([lane("lake")]),
      certificates: [
        {
          key: "tls.certificate",
          subject: "hooks.example.com",
          notBefore: notAfter - 90 * day,
          notAfter,
          fingerprint: "A",
        },
      ],
    })
    expect(rendered(at(300_000 + 15 * day))).toMatch(/^relay 1\.2\.3/)
    expect(rendered(at(300_000 + 15 * day))).toMatch(/tls\.certificate +hooks\.example\.com +in 15 d/)
    expect(rendered(at(300_000 + 10 * day))).toStartWith(
      "warning  tls.certificate: the certificate of hooks.example.com expires in 10 d\n  what to do: renew it, then relay reload",
    )
    expect(health(at(300_000 + 10 * day)).level).toBe("warning")
    expect(rendered(at(240_000))).toStartWith(
      "critical  tls.certificate: the certificate of hooks.example.com expired 60 s ago",
    )
    expect(health(at(300_000)).level).toBe("critical")
  })

  test("reports an incomplete certificate chain, and notes a certificate with an unknown issuer", () => {
    const at = (isSure: boolean): Status => ({
      ...status([lane("lake")]),
      certificates: [
        {
          key: "tls.certificate",
          subject: "hooks.example.com",
          notBefore: 0,
          notAfter: 300_000 + 90 * 86_400_000,
          fingerprint: "A",
          chain: { message: "the issuer of it is not in the file", hint: "append it", isSure },
        },
      ],
    })
    const said =
      "tls.certificate: the certificate of hooks.example.com: the issuer of it is not in the file\n  what to do: append it; then relay reload"
    expect(rendered(at(true))).toStartWith(`critical  ${said}`)
    expect(rendered(at(false))).toContain(`note  ${said}`)
    expect([health(at(true)).level, health(at(false)).level]).toEqual(["critical", "ok"])
  })

  test("shows the quarantine once it holds something", () => {
    const text = rendered(status([lane("_quarantine", { type: "quarantine", deadLetters: 2 })]))
    expect(text).toContain("_quarantine: 2 dead letters\n  what to do: relay dlq list --sink _quarantine")
  })

  test("without its database shows the age of its figures, and nothing of relays without a heartbeat", () => {
    const silent = {
      name: "b",
      isSelf: false,
      version: "",
      configHash: "x",
      address: "",
      age: 60_000,
      streams: [],
      shared: false,
      waiting: 0,
    }
    const away = status([], { health: "unavailable", message: "no answer", answeredAt: 288_000 })
    const found = { ...away, notReady: "unavailable: no answer", fleet: { relays: [silent], unowned: [] } }
    const { level, problems } = health(found)
    expect([level, problems.map(({ state }) => state)]).toEqual(["critical", ["not-ready"]])
    expect(problems[0]?.lines).toContain("the figures shown are 12 s old")
    expect(rendered(found)).toContain("journal unavailable: 12 entries so far, 2.0 KiB of 1.0 GiB, as of 12 s ago")
  })

  test("a stalled lane is critical, with its message", () => {
    const { level, problems } = health(
      status([lane("lake", { condition: "stalled", message: "since noon", backlog: 3 })]),
    )
    expect([level, problems.map(({ state }) => state)]).toEqual(["critical", ["sink-stalled"]])
    expect(problems[0]?.lines).toEqual(["stalled; since noon"])
  })
})
