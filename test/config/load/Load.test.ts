import { describe, expect } from "bun:test"
import { readFileSync } from "node:fs"
import { Duration, Effect, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import { ConfigError, toJson } from "../../../src/config/diagnostics/Diagnostic.ts"
import { type Loaded, load, loadAdmin, loadOrEmbedded } from "../../../src/config/load/Load.ts"
import { it } from "../../lib/effect.ts"
import { tries } from "../../lib/tries.ts"
import { config, loadText, options } from "../fixture.ts"

const pem = (file: string) => readFileSync(new URL(`../../e2e/http/tls/${file}`, import.meta.url), "utf8")
const files = { "cert.pem": pem("localhost.pem"), "key.pem": pem("localhost.key.pem") }

const failure = (text: string, env: Readonly<Record<string, string>> = {}) =>
  loadText(text, env, files).pipe(Effect.flip)

describe("a file with several mistakes", () => {
  it.effect("has all of them reported together, in the order of the file", function* () {
    const error = yield* failure(
      `{
  "lisen": "127.0.0.1:8080",
  "journal": { "retention": "7d", "maxSize": 12 },
  "webhooks": {
    "scheduling": { "path": "hooks", "respond": 302, "secrets": [{ "name": "now", "value": "\${NOT_SET}" }] }
  },
  "sinks": { "audit": { "type": "fil" }, "other": { "type": "file", "pth": "x" } },
  "routes": [{ "name": "everything", "match": "a..b", "to": ["audit", "adit"] }],
  "routes": [{ "name": "everything", "match": "a..b", "to": ["audit", "adit"] }]
}`,
    )
    expect(toJson(error.diagnostics).map(({ line, column, key }) => `${line}:${column} ${key}`)).toEqual([
      "2:3 lisen",
      "3:29 journal.retention",
      "3:46 journal.maxSize",
      "5:29 webhooks.scheduling.path",
      "5:49 webhooks.scheduling.respond",
      "5:92 webhooks.scheduling.secrets[0].value",
      "7:33 sinks.audit.type",
      "7:69 sinks.other.pth",
      "9:3 routes",
      "9:47 routes[0].match",
      "9:71 routes[0].to[1]",
    ])
  })

  it.effect("is shown in a line that a terminal can hold, however long the file's own is", function* () {
    const padding = Array.from({ length: 60 }, (_, index) => [String(`fine${index}`), { type: "console" }] as const)
    for (const before of [0, 20, 59]) {
      const sinks = Object.fromEntries(padding.toSpliced(before, 0, ["wrong", { type: "console" }]))
      const text = JSON.stringify(JSON.parse(config({ sinks }))).replace('"wrong":{', '"wrong":{"typ":1,')
      const { diagnostics } = yield* failure(text)
      const { excerpt } = diagnostics.find(({ key }) => key === "sinks.wrong.typ") ?? {}
      expect(excerpt?.text.length).toBeLessThanOrEqual(101)
      expect(excerpt?.text.slice(excerpt.start, excerpt.start + excerpt.length)).toBe('"typ"')
    }
  })

  it.effect("may have thousands, and each is reported at its position", function* () {
    const many = tries(5_000)
    const keys = Array.from({ length: many }, (_, index) => [`key${index}`, 1] as const)
    const { diagnostics } = yield* failure(JSON.stringify(Object.fromEntries(keys), null, 2))
    const told = diagnostics.filter(({ message }) => message.startsWith("unknown key"))
    expect(told.map(({ line, column }) => [line, column])).toEqual(keys.map((_, index) => [index + 2, 3]))
    expect(told.at(-1)?.excerpt).toEqual({
      text: `  "key${many - 1}": …`,
      start: 2,
      length: `"key${many - 1}"`.length,
    })
  })

  it.effect("has a report for text that is nested too deep, or broken at any position", function* () {
    for (const depth of [101, 5_000, 200_000]) {
      const { diagnostics } = yield* failure(`{ "sinks":\n${'{"a":'.repeat(depth)}1${"}".repeat(depth)} }`)
      expect(toJson(diagnostics).map(({ line, message }) => [line, message])).toEqual([
        [2, "this is nested too deeply"],
      ])
    }
    const whole = config({})
    for (let length = 0; length < whole.length; length += 7) {
      const error = yield* failure(whole.slice(0, length))
      expect(error.diagnostics.length).toBeGreaterThan(0)
    }
  })
})

describe("what is allowed and probably not meant", () => {
  const warnings = (text: string) =>
    Effect.map(loadText(text), (_) => _.warnings.map(({ key, message, hint }) => [key, message, hint ?? ""]))

  it.effect("a pattern that matches no event type is a warning with the nearest that would", function* () {
    const match = [
      "appointment.meetng.*_failed",
      "clients.*",
      "relay.lane_pausd",
      "zzz.**",
      "*",
      "appointment.meeting.*_faild",
      "client*",
      "appointment*",
    ]
    const routes = [{ name: "a", match: ["**", ...match], to: "audit" }]
    expect(yield* warnings(config({ routes }))).toEqual([
      ["routes[0].match[1]", "this matches none of the 42 event types", 'did you mean "appointment.meeting.*_failed"?'],
      ["routes[0].match[2]", "this matches none of the 42 event types", 'did you mean "client.*"?'],
      ["routes[0].match[3]", "this matches none of the relay's own events", 'did you mean "relay.lane_paused"?'],
      ["routes[0].match[4]", "this matches none of the 42 event types", ""],
      ["routes[0].match[5]", "this matches none of the 42 event types", "`**` matches them all"],
      ["routes[0].match[6]", "this matches none of the 42 event types", 'did you mean "appointment.meeting.*_failed"?'],
      ["routes[0].match[7]", "this matches none of the 42 event types", 'did you mean "client.*"?'],
      ["routes[0].match[8]", "this matches none of the 42 event types", 'did you mean "appointment.**"?'],
    ])
  })

  it.effect("checks the patterns of a sink's keys as it checks those of routes", function* () {
    const routes = [{ name: "a", match: "**", to: "oncall" }]
    const sinks = { oncall: { type: "chat", mute: ["client.deletd", "*.deleted"] } }
    expect(yield* warnings(config({ sinks, routes }))).toEqual([
      ["sinks.oncall.mute[0]", "this matches none of the 42 event types", 'did you mean "client.deleted"?'],
    ])
  })

  it.effect(
    "suggests a pattern that matches for one with too few segments, or a typing error in its last",
    function* () {
      const meant = {
        "*_faild": "**.*_failed",
        "*_failed": "**.*_failed",
        "**.*_faild": "**.*_failed",
        "appointment.*_faild": "appointment.**.*_failed",
        "appointment.canceld": "appointment.canceled",
        update: "**.updated",
      }
      const routes = [{ name: "a", match: ["**", ...Object.keys(meant)], to: "audit" }]
      const hints = (yield* warnings(config({ routes }))).map(([, , hint]) => hint)
      expect(hints).toEqual(Object.values(meant).map((pattern) => `did you mean "${pattern}"?`))
    },
  )

  it.effect("texts of events and messages may look like references; a secret may not", function* () {
    const looks = ["$PRICE", "%SHARE%", "env:production", "$(date)", "see file:/etc/motd"]
    const http = { type: "http", url: "https://example.com", body: { looks } }
    const where = { "/data/object/tag": looks }
    const routes = [{ name: "a", match: "**", where, to: "audit" }]
    const tests = [{ event: "client.created", object: { looks }, to: "audit" }]
    expect(yield* warnings(config({ sinks: { audit: http }, routes, tests }))).toEqual([])
    for (const value of [...looks, "{{ env.TOKEN }}", "Bearer file:/run/token"]) {
      if (value.startsWith("see")) continue
      const { diagnostics } = yield* failure(config({ admin: { token: value } }))
      expect(diagnostics.map(({ key }) => key)).toEqual(["admin.token"])
    }
  })

  it.effect("a condition that always holds and a field that the envelope does not have are warnings", function* () {
    const of = (where: object) => warnings(config({ routes: [{ name: "a", match: "**", where, to: "audit" }] }))
    const at = (pointer: string) => `routes[0].where["${pointer}"]`
    expect(
      yield* of({
        "/id": { exists: true },
        "/data/object": { not: "x" },
        "/acount_id": "acct_1",
        "/data/kind": { exists: false },
      }),
    ).toEqual([
      [at("/id"), "this always holds", "remove it"],
      [at("/data/object"), "this always holds", "remove it"],
      [at("/acount_id"), "the envelope has no documented field /acount_id", 'did you mean "/account_id"?'],
      [
        at("/data/kind"),
        "the envelope has no documented field /data/kind",
        "its fields are: /id, /account_id, /version, /created_at, /data, /data/type, /data/object",
      ],
    ])
    const sound = {
      "/account_id": { prefix: "acct_", not: ["acct_1"] },
      "/data/object/a~1b": { exists: true, not: { prefix: ["x", "y"] } },
      "/data/object/n": [1, null, "one"],
      "/data/type": { not: { oneOf: ["client.created"] } },
    }
    expect(yield* of(sound)).toEqual([])
  })

  it.effect("expired secrets are warnings, and more serious if none is left", function* () {
    yield* TestClock.setTime(Date.parse("2026-12-01T00:00:00Z"))
    const old = { name: "old", value: "a-long-signing-secret-a", expires: "2026-12-01T00:00:00Z" }
    const current = { name: "new", value: "a-long-signing-secret-b", expires: "2026-12-01T00:00:01Z" }
    const webhooks = (...secrets: ReadonlyArray<unknown>) => config({ webhooks: { w: { path: "/w", secrets } } })
    expect((yield* warnings(webhooks(old, current))).map(([key, message]) => [key, message])).toEqual([
      ["webhooks.w.secrets[0].expires", "this secret has expired and verifies nothing"],
    ])
    expect((yield* warnings(webhooks(old))).map(([key, message]) => [key, message])).toEqual([
      ["webhooks.w.secrets", "every secret here has expired: no delivery will verify"],
    ])
  })

  it.effect("a secret or token of fewer than 16 bytes gives a warning that doesn't reveal it", function* () {
    const weak = { scheduling: { path: "/hooks", secrets: [{ name: "now", value: "fifteen bytes.." }] } }
    expect(yield* warnings(config({ webhooks: weak, admin: { token: "x" } }))).toEqual([
      [
        "webhooks.scheduling.secrets[0].value",
        "a signing secret of fewer than 16 bytes can be guessed",
        expect.stringContaining("openssl rand"),
      ],
      ["admin.token", "a token of fewer than 16 bytes can be guessed", expect.stringContaining("openssl rand")],
    ])
  })

  it.effect("listening beyond this machine without TLS is a warning; the admin API needs its token", function* () {
    const found = yield* warnings(
      config({ listen: "0.0.0.0:8080", admin: { listen: "[::]:9080", token: "open sesame, and more" } }),
    )
    expect(found.map(([key, message]) => [key, message])).toEqual([
      ["listen", "the receiver listens beyond this machine without TLS"],
      ["admin.listen", "the admin API listens beyond this machine, without TLS"],
    ])
  })

  it.effect("a stop that waits over 25 seconds is a warning that names the settings of service managers", function* () {
    expect(yield* warnings(config({ drain: { delay: "20 seconds", refuse: "5 seconds" } }))).toEqual([])
    expect(yield* warnings(config({ drain: { delay: "24 seconds" } }))).toEqual([
      [
        "drain",
        expect.stringContaining("are 26s together, so a stop may take 50 seconds"),
        expect.stringMatching(
          /TimeoutStopSec .* stop_grace_period .* terminationGracePeriodSeconds .* above 50 seconds/,
        ),
      ],
    ])
  })
})

describe("the waits of a stop", () => {
  const waitsOf = (drain: Readonly<Record<string, unknown>>, env: Readonly<Record<string, string>>) =>
    Effect.map(loadText(config(drain), env), (loaded) => Object.values(loaded.config.drain).map(Duration.toSeconds))
  const image = { RELAY_DRAIN_DELAY: "5 seconds" }

  it.effect("have defaults, which the environment changes and the file overrides key by key", function* () {
    expect(yield* waitsOf({}, {})).toEqual([0, 2])
    expect(yield* waitsOf({}, { RELAY_DRAIN_DELAY: "", RELAY_DRAIN_REFUSE: "" })).toEqual([0, 2])
    expect(yield* waitsOf({}, { ...image, RELAY_DRAIN_REFUSE: "0 seconds" })).toEqual([5, 0])
    expect(yield* waitsOf({ drain: { refuse: "1 second" } }, image)).toEqual([5, 1])
    expect(yield* waitsOf({ drain: { delay: "3 seconds" } }, image)).toEqual([3, 2])
  })

  it.effect("are refused with the variable that has the mistake", function* () {
    const { diagnostics } = yield* failure(config({}), { RELAY_DRAIN_DELAY: "5s" })
    expect(diagnostics.map(({ key }) => key)).toEqual(["drain.delay"])
    expect(diagnostics[0]?.hint).toContain("RELAY_DRAIN_DELAY")
    expect((yield* failure(config({ drain: [] }), image)).diagnostics.map(({ key }) => key)).toEqual(["drain"])
  })
})

describe("the tokens of the admin API", () => {
  const long = (name: string) => `${name}-${"x".repeat(16)}`
  const token = (name: string, more: object = {}) => ({ name, role: "read", value: long(name), ...more })
  const found = (admin: object) =>
    Effect.map(failure(config({ admin })), ({ diagnostics, message }) => ({
      message,
      all: diagnostics.map(({ key, message }) => [key, message]),
    }))

  it.effect("have names, roles and texts of their own", function* () {
    const loaded = yield* loadText(config({ admin: { tokens: [token("ada", { role: "operate" }), token("screen")] } }))
    expect(loaded.config.admin.tokens?.map(({ name, role }) => [name, role])).toEqual([
      ["ada", "operate"],
      ["screen", "read"],
    ])
    expect(loaded.warnings).toEqual([])
  })

  it.effect("do not have a name that is taken, or that could steer a terminal", function* () {
    for (const name of ["local", "admin", "user root", "a\nb"]) {
      expect((yield* found({ tokens: [token("x", { name })] })).all).toEqual([
        ["admin.tokens[0].name", expect.any(String)],
      ])
    }
  })

  it.effect("let the admin API listen beyond this machine, and are warned of when they can be guessed", function* () {
    const tokens = [token("ada"), token("screen", { value: "x" })]
    const loaded = yield* loadText(config({ admin: { listen: "0.0.0.0:9080", tokens } }))
    expect(loaded.warnings.map(({ key }) => key)).toEqual(["admin.listen", "admin.tokens[1].value"])
  })
})

describe("a config that is right", () => {
  it.effect("gets every default", function* () {
    const { config: loaded, warnings } = yield* loadText(config({}))
    expect(warnings).toEqual([])
    expect(loaded.listen).toEqual({ host: "127.0.0.1", port: 8080 })
    expect(loaded.admin).toEqual({ listen: { host: "127.0.0.1", port: 9080 } })
    expect(loaded.journal).toEqual({
      type: "sqlite",
      path: "./data/journal.db",
      retention: Duration.days(7),
      maxSize: 10 * 1024 ** 3,
      minFree: 256 * 1024 ** 2,
      duplicates: { age: Duration.hours(24), count: 1_000_000 },
      searchIds: ["/data/object/id", "/data/object/client_id"],
    })
    const { secrets, ...webhook } = loaded.webhooks[0] ?? { secrets: [] }
    expect(webhook).toEqual({
      name: "scheduling",
      ids: [],
      path: "/hooks",
      headers: { signature: "x-service-signature", webhookId: "x-service-webhook-id" },
      unknownTypes: "route",
      undecodable: "quarantine",
      respond: 202,
      maxBody: 1024 ** 2,
      commitTimeout: Duration.seconds(3),
      strictId: false,
      gzip: false,
      mask: [],
    })
    expect(secrets.map(({ name, value }) => [name, Redacted.value(value)])).toEqual([["now", "correct horse battery"]])
    expect(loaded.sinks).toEqual([
      {
        name: "audit",
        type: "file",
        config: { path: "./events.ndjson" },
        concurrency: 1,
        order: "none",
        key: "{{account_id}}",
        delivery: {
          timeout: Duration.seconds(10),
          retry: { maxAge: Duration.hours(72), initial: Duration.seconds(1), max: Duration.minutes(10) },
          pauseAfter: 5,
          maxRetrying: 10_000,
          maxDeadLetters: 1024 ** 3,
        },
      },
    ])
    expect(loaded.routes).toEqual([{ name: "everything", match: ["**"], except: [], where: {}, to: ["audit"] }])
    expect(loaded.tests).toEqual([])
  })

  it.effect("may have comments and trailing commas, and a byte order mark", function* () {
    const text = `\uFEFF// a config\n${config({}).replace(/\n}$/, ", /* the end */\n}")}`
    expect((yield* loadText(text)).config.webhooks.length).toBe(1)
  })

  it.effect("a sink's delivery overrides the common one key by key", function* () {
    const { config: loaded } = yield* loadText(
      config({
        delivery: { timeout: "20 seconds", retry: { max: "1 hour", maxAttempts: 7 } },
        sinks: { audit: { type: "console", delivery: { pauseAfter: 9, retry: { maxAttempts: 3 } } } },
      }),
    )
    expect(loaded.sinks[0]?.delivery).toMatchObject({
      timeout: Duration.seconds(20),
      pauseAfter: 9,
      retry: { maxAttempts: 3, max: Duration.hours(1), initial: Duration.seconds(1) },
    })
  })

  it.effect("a sink without a concurrency gets its type's default", function* () {
    const url = "https://example.com"
    const sinks = { one: { type: "http", url }, two: { type: "http", url, concurrency: 3 } }
    const { config: loaded } = yield* loadText(
      config({ sinks, routes: [{ name: "a", match: "**", to: ["one", "two"] }] }),
    )
    expect(loaded.sinks.map(({ concurrency }) => concurrency)).toEqual([16, 3])
  })

  it.effect("may let both listeners take any free port", function* () {
    const { config: loaded } = yield* loadText(config({ listen: "127.0.0.1:0", admin: { listen: "127.0.0.1:0" } }))
    expect([loaded.listen.port, loaded.admin.listen.port]).toEqual([0, 0])
  })

  it.effect("a single text stands for a list of one, and a rate for its two parts", function* () {
    const { config: loaded } = yield* loadText(
      config({
        webhooks: {
          w: {
            path: "/",
            id: "wh_1",
            headers: { signature: "X-Sig" },
            secrets: [{ name: "a", value: "a-long-signing-secret-b" }],
          },
        },
        sinks: {
          audit: { type: "console", rateLimit: "100/second", backlog: { max: 5 } },
          other: { type: "console", rateLimit: { events: 3, per: "2 minutes" }, renamedFrom: "gone" },
        },
        routes: [
          {
            name: "a",
            match: "**",
            where: {
              "/account_id": "acct_1",
              "/data/object/x": { prefix: "a", not: "ab" },
              "/version": { not: { prefix: "2" } },
            },
            to: "audit",
          },
        ],
        tests: [{ event: "client.created", to: "audit" }],
      }),
    )
    expect(loaded.webhooks[0]).toMatchObject({ ids: ["wh_1"], headers: { signature: "x-sig" } })
    expect(loaded.sinks[0]).toMatchObject({
      rateLimit: { events: 100, per: Duration.seconds(1) },
      backlog: { max: 5, whenFull: "refuse" },
    })
    expect(loaded.sinks[1]).toMatchObject({ rateLimit: { events: 3, per: Duration.minutes(2) }, renamedFrom: "gone" })
    expect(loaded.routes[0]).toMatchObject({ match: ["**"], to: ["audit"] })
    expect(loaded.routes[0]?.where).toEqual({
      "/account_id": ["acct_1"],
      "/data/object/x": { prefix: ["a"], not: ["ab"] },
      "/version": { not: { prefix: ["2"] } },
    })
    expect(loaded.tests).toEqual([{ event: "client.created", to: ["audit"], payloads: {} }])
  })

  it.effect("resolves variables, their defaults, and files", function* () {
    const { config: loaded } = yield* loadText(
      config({
        listen: "${HOST}:${PORT:-8081}",
        sinks: { audit: { type: "file", path: "$${literal}/${EMPTY:-x}" } },
        webhooks: {
          w: {
            path: "/",
            secrets: [
              { name: "a", value: "file:${DIRECTORY}/secret" },
              { name: "b", value: "${IN_FILE}" },
              { name: "c", value: "Bearer ${file:${DIRECTORY}/token}, $${file:x} ${file:/run/other}" },
              { name: "d", value: "${file:/run/named}" },
            ],
          },
        },
      }),
      { HOST: "localhost", EMPTY: "", DIRECTORY: "/run", IN_FILE: "file:/run/other" },
      {
        "/run/secret": "from a file\n",
        "/run/other": "  kept as it is \r\n",
        "/run/token": "abc${HOST}\n",
        "/run/named": "file:/run/secret",
      },
    )
    expect(loaded.listen).toEqual({ host: "localhost", port: 8081 })
    expect(loaded.sinks[0]?.config).toEqual({ path: "${literal}/x" })
    expect(loaded.webhooks[0]?.secrets.map(({ value }) => Redacted.value(value))).toEqual([
      "from a file",
      "  kept as it is ",
      "Bearer abc${HOST}, ${file:x}   kept as it is ",
      "file:/run/secret",
    ])
  })
})

describe("a file that can't be read", () => {
  const reading = (files: Parameters<typeof options>[0]) =>
    Effect.map(Effect.flip(load("some.json", options(files))), (_) => _.message)

  it.effect("is named, with the remedy", function* () {
    expect(yield* reading({})).toBe(
      "some.json: error: there is no such file\n  hint: `relay init` writes a config to start from; `--config PATH` chooses another\n\n1 error",
    )
    expect(yield* reading({ "some.json": "directory" })).toContain("some.json: error: it is not a file")
    expect(yield* reading({ "some.json": Uint8Array.from([0xff, 0xfe, 0x7b, 0]) })).toContain(
      "some.json: error: this is not UTF-8 text\n  hint: save it as UTF-8",
    )
  })

  it.effect("is the installed config if the directory has none", function* () {
    const files = { "/etc/relay/relay.config.json": config({ admin: { listen: "127.0.0.1:9999" } }) }
    expect((yield* loadOrEmbedded(options(files))).file).toBe("/etc/relay/relay.config.json")
    const both = { ...files, "relay.config.json": config({}) }
    expect((yield* loadOrEmbedded(options(both))).file).toBe("relay.config.json")
    const { file, admin } = yield* loadAdmin(undefined, options(files))
    expect([file, admin.listen.port]).toEqual(["/etc/relay/relay.config.json", 9999])
  })

  it.effect("has its credentials in the directory of the packaged unit if a command may read them", function* () {
    const text = config({
      admin: { token: "file:${CREDENTIALS_DIRECTORY}/admin-token" },
      webhooks: { w: { path: "/", secrets: [{ name: "a", value: "file:${CREDENTIALS_DIRECTORY}/w" }] } },
    })
    const [installed, secrets] = ["/etc/relay/relay.config.json", "/etc/relay/secrets"]
    const kept = { [`${secrets}/w`]: "signing", [`${secrets}/admin-token`]: "administering" }
    const files = { [installed]: text, "relay.config.json": text, ...kept }
    const secretOf = ({ config }: Loaded) =>
      config.webhooks.map(({ secrets: [one] }) => one && Redacted.value(one.value))
    const reads = { ...options(files), readsInstalled: true }
    expect(secretOf(yield* load(installed, reads))).toEqual(["signing"])
    const fileOf = (path: string) => path.replace("/here/", "/etc/relay/")
    const linked = options({ ...files, "/here/relay.config.json": text })
    expect(secretOf(yield* load("/here/relay.config.json", { ...linked, fileOf, readsInstalled: true }))).toEqual([
      "signing",
    ])
    const { admin } = yield* loadAdmin(installed, options(files))
    expect(admin.token && Redacted.value(admin.token)).toBe("administering")
    // The relay itself, another config, and another named directory.
    for (const [file, given, why] of [
      [installed, options(files), "the variable CREDENTIALS_DIRECTORY is not set"],
      ["relay.config.json", reads, "the variable CREDENTIALS_DIRECTORY is not set"],
      [
        installed,
        { ...options(files, { CREDENTIALS_DIRECTORY: "/run" }), readsInstalled: true },
        "there is no such file",
      ],
    ] as const) {
      expect((yield* Effect.flip(load(file, given))).message).toContain(why)
    }
  })

  it.effect("has the credentials that the unit loads, but for those that this user can't read", function* () {
    const value = "file:${CREDENTIALS_DIRECTORY}/w"
    const text = config({ webhooks: { w: { path: "/", secrets: [{ name: "a", value }] } } })
    const [installed, secrets] = ["/etc/relay/relay.config.json", "/etc/relay/secrets"]
    const check = { mayLack: "credentials", readsInstalled: true } as const
    const files = { [installed]: text, [`${secrets}/.`]: "directory" } as const
    const loading = (more: object, unit: ReadonlyArray<readonly [string, string]>) =>
      load(installed, { ...options({ ...files, ...more }), ...check, unitCredentials: () => new Map(unit) })
    const elsewhere = yield* loading({ "/srv/w": "signing" }, [["w", "/srv/w"]])
    expect(elsewhere.config.webhooks[0]?.secrets[0]?.value.pipe(Redacted.value)).toBe("signing")
    expect(elsewhere.absent).toEqual([])
    const empty = yield* Effect.flip(loading({ "/srv/w": "" }, [["w", "/srv/w"]]))
    expect(empty.message).toContain("a secret can't be empty")
    const unnamed = yield* Effect.flip(loading({ [`${secrets}/w`]: "signing" }, []))
    expect(unnamed.message).toContain("the unit names what is there: LoadCredential=w:PATH")
    const denied = yield* load(installed, { ...options({ ...files, [`${secrets}/.`]: "denied" }), ...check })
    expect(denied.absent).toMatchObject([{ message: "can't be read here: it is a credential of the service" }])
  })

  it.effect("gives way to the embedded defaults only when it isn't there and wasn't named", function* () {
    const loaded = yield* loadOrEmbedded(options())
    expect(loaded.file).toBe("the embedded defaults")
    const broken = yield* Effect.flip(loadOrEmbedded(options({ "relay.config.json": "{" })))
    expect(broken).toBeInstanceOf(ConfigError)
    const directory = yield* Effect.flip(loadOrEmbedded(options({ "relay.config.json": "directory" })))
    expect(directory.message).toContain("it is not a file")
  })
})

describe("the admin API's address", () => {
  it.effect("is found without reading any signing secret", function* () {
    const text = config({
      admin: { listen: "127.0.0.1:9999", token: "${TOKEN}" },
      webhooks: { w: { path: "/", secrets: [{ name: "a", value: "file:/not/for/you" }] } },
    })
    const { admin } = yield* loadAdmin("a.json", options({ "a.json": text }, { TOKEN: "open sesame" }))
    expect(admin.listen).toEqual({ host: "127.0.0.1", port: 9999 })
    expect(admin.token === undefined ? "" : Redacted.value(admin.token)).toBe("open sesame")
    const unset = yield* Effect.flip(loadAdmin("a.json", options({ "a.json": text })))
    expect(unset.diagnostics.map(({ key }) => key)).toEqual(["admin.token"])
  })

  it.effect("is loaded with the chosen token, and without reading the others", function* () {
    const tokens = [
      { name: "service", role: "operate", value: "file:${CREDENTIALS_DIRECTORY}/service" },
      { name: "ada", role: "operate", value: "file:/home/ada/token" },
      { name: "screen", role: "read", value: "file:/home/screen/token" },
    ]
    const files = { "a.json": config({ admin: { tokens } }), "/home/screen/token": "the-screen" }
    const load = (as: string | undefined, more: Readonly<Record<string, string>> = {}) =>
      loadAdmin("a.json", { ...options({ ...files, ...more }), as })
    const names = ["service", "ada", "screen"]
    const own = yield* load("screen")
    expect(own).toMatchObject({ lacksToken: false, names })
    expect(own.admin.tokens?.map(({ name, value }) => [name, Redacted.value(value)])).toEqual([
      ["screen", "the-screen"],
    ])
    // The first token that this user can read.
    expect((yield* load(undefined)).admin.tokens?.map(({ name }) => name)).toEqual(["screen"])
    const unread = yield* Effect.flip(loadAdmin("a.json", options({ "a.json": files["a.json"] })))
    expect(unread.diagnostics.map(({ key }) => key)).toEqual(["admin.tokens[1].value"])
    const first = yield* load(undefined, { "/home/ada/token": "ada" })
    expect(first.admin.tokens?.map(({ name }) => name)).toEqual(["ada"])
    expect(yield* load("service")).toMatchObject({ lacksToken: true, names })
    expect(yield* load("nobody")).toMatchObject({ lacksToken: false, names })
    expect((yield* load("nobody")).admin.tokens).toBeUndefined()
  })

  it.effect("is the embedded one if no file is named and none exists", function* () {
    expect((yield* loadAdmin(undefined, options())).admin.listen.port).toBe(9080)
    const named = yield* Effect.result(loadAdmin("b.json", options()))
    expect(Result.isFailure(named)).toBe(true)
  })
})

describe("maxHeaders", () => {
  const loading = (maxHeaders: string, headerLimit?: string) => {
    const files = { "relay.config.json": config({ maxHeaders }) }
    return load("relay.config.json", { ...options(files), headerLimit })
  }

  it.effect("is bytes", function* () {
    expect((yield* loading("1 MiB")).config.maxHeaders).toBe(1024 * 1024)
  })

  it.effect("is an error in a runtime with a fixed limit, which the error names", function* () {
    const { diagnostics } = yield* Effect.flip(loading("32 KiB", "Deno takes 64 KiB"))
    expect(diagnostics.map(({ message }) => message)).toEqual(["this can't be set here: Deno takes 64 KiB"])
  })
})
