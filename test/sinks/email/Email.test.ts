import { beforeAll, describe, expect } from "bun:test"
import { createServer } from "node:net"
import { Deferred, Duration, Effect, Fiber, Redacted, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { dnsCache } from "nodemailer/lib/shared"
import * as Jmespath from "../../../src/formats/jmespath/Jmespath.ts"
import * as SmtpSession from "../../../src/sinks/email/SmtpSession.ts"
import type { Reason, Sink, SinkError } from "../../../src/sinks/Sink.ts"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import { effectOf, it, type Steps } from "../../lib/effect.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { listening } from "../receiver.ts"
import { bytes, entries, entry, envelope, reasonOf } from "../samples.ts"
import { startThere } from "../thereSink.ts"
import { openEmail } from "./emailSink.ts"
import { greeting, reply, type Smtp, startSmtp, type Taken } from "./smtpServer.ts"

const started = (options?: Parameters<typeof startSmtp>[0]): Effect.Effect<Smtp, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(() => startSmtp(options)),
    (smtp) => Effect.promise(smtp.close),
  )

/** A server and a sink to it. */
const test = (
  title: string,
  body: (sink: Sink, smtp: Smtp) => Steps<void, SinkError, Scope.Scope>,
  { options, config = {} }: { options?: Parameters<typeof startSmtp>[0]; config?: Record<string, unknown> } = {},
) =>
  it.live(title, function* () {
    const smtp = yield* started(options)
    const sink = yield* openEmail(() => ({ server: smtp.server, ...config }))
    yield* effectOf(() => body(sink, smtp))
  })

const last = ({ taken }: Smtp): Taken => {
  const found = taken.at(-1)
  if (found === undefined) throw new Error("no mail came")
  return found
}

/** An event of this type, both in its field and in its body. */
const typed = (sequence: number, type: string, object: unknown = { id: `cal_${sequence}` }) =>
  entry(sequence, { type, body: bytes(JSON.stringify({ ...envelope(sequence), data: { type, object } })) })

describe("a mail", () => {
  beforeAll(startThere, 60_000)
  beforeAll(() => Effect.runPromise(Jmespath.load))

  it.live("names a domain of other letters in ASCII", function* () {
    const { server, sent } = yield* greeting("8BITMIME")
    const sink = yield* openEmail(() => ({ server, from: "relay@bücher.example" }))
    yield* reasonOf(sink.send([entry(1)]))
    expect(sent.join("")).toContain("MAIL FROM:<relay@xn--bcher-kva.example>")
  })

  test(
    "goes to every address, from the one that is given, and asks programs not to answer",
    function* (sink, smtp) {
      yield* sink.send([entry(1)])
      const { mail, from, to, raw } = last(smtp)
      expect([from, to]).toEqual(["relay@example.com", ["one@example.com", "two@example.com", "three@example.com"]])
      expect(mail.from).toEqual({ name: "Relais für Müller", address: "relay@example.com" })
      expect(mail.to).toEqual([
        { name: "", address: "one@example.com" },
        { name: "On, call", address: "two@example.com" },
      ])
      expect(mail.cc).toEqual([{ name: "", address: "three@example.com" }])
      expect(mail.replyTo).toEqual([{ name: "", address: "answers@example.com" }])
      expect(raw).toContain("Auto-Submitted: auto-generated")
      expect(raw).not.toMatch(/nodemailer|X-Mailer/i)
      expect(mail.attachments).toEqual([])
    },
    {
      config: {
        from: "Relais für Müller <relay@example.com>",
        to: ["one@example.com", "On, call <two@example.com>"],
        cc: ["three@example.com"],
        replyTo: "answers@example.com",
      },
    },
  )

  test("shows what failed, where and when, and only the object's id", function* (sink, smtp) {
    yield* sink.send([typed(1, "connected_account.refresh_failed", { id: "cal_1", email: "ada@example.com" })])
    const { mail } = last(smtp)
    expect(mail.subject).toBe("A calendar has lost its access and must be connected again (acct_1)")
    expect(mail.text).toBe(
      [
        "A calendar has lost its access and must be connected again (acct_1)",
        "",
        "Type:    connected_account.refresh_failed",
        "Account: acct_1",
        "Object:  cal_1",
        "Event:   evt_1",
        "Time:    2026-11-21T08:00:00Z",
        "",
      ].join("\n"),
    )
  })

  test("of a digest shows the number of events and their differences", function* (sink, smtp) {
    const type = "connected_account.refresh_failed"
    yield* sink.send([typed(1, type), typed(2, type), typed(3, type)])
    expect(smtp.taken).toHaveLength(1)
    const { mail } = last(smtp)
    expect(mail.subject).toBe("3 × A calendar has lost its access and must be connected again (acct_1)")
    expect(mail.text).toContain("Events:  3\n")
    expect(mail.text).toContain("2026-11-21T08:00:00Z: Object cal_2, Event evt_2\n")
  })

  test(
    "is what the templates say, filled in from all of a digest",
    function* (sink, smtp) {
      yield* sink.send(entries(2))
      const { mail } = last(smtp)
      expect(mail.subject).toBe("2 × appointment.created")
      expect(mail.text).toBe(
        [
          "Grüße 🙂",
          ".",
          "2026-11-21T08:00:01.000Z appointment.created acct_1 evt_1",
          "2026-11-21T08:00:02.000Z appointment.created acct_1 evt_2",
          "",
        ].join("\n"),
      )
    },
    { config: { subject: "{{count}} × {{type}}", text: "Grüße 🙂\n.\n{{events}}" } },
  )

  test(
    "is what expressions make of a digest, whose events they see",
    function* (sink, smtp) {
      yield* sink.send(entries(2))
      const { mail } = last(smtp)
      expect(mail.subject).toBe("2 of appointment.created")
      expect(mail.text).toBe("evt_1, evt_2; the last is apt_2\n")
    },
    {
      config: {
        subject: { jmespath: "join(' ', [to_string($count), 'of', data.type])" },
        text: { jmespath: "join('', [join(', ', $events[].id), '; the last is ', data.object.id])" },
      },
    },
  )

  test(
    "has no header, line or recipient of an event's making",
    function* (sink, smtp) {
      const hostile = 'x\r\nBcc: evil@example.com\r\n\r\n.\r\nRCPT TO:<evil@example.com>\r\n\u0000\u202e\ud800"<b>'
      const object = { id: hostile, note: hostile }
      yield* sink.send([entry(1, { type: hostile, id: hostile, accountId: hostile, ...bodyOf(hostile, object) })])
      yield* sink.send([entry(2)])
      expect(smtp.taken).toHaveLength(2)
      const [first] = smtp.taken
      expect(first?.to).toEqual(["oncall@example.com"])
      expect(first?.mail.headers.map(({ key }) => key)).not.toContain("bcc")
      expect(first?.mail.subject).not.toMatch(/\p{Cc}|\u202e/u)
      expect(first?.mail.text?.replaceAll("\n", "")).not.toMatch(/\p{Cc}|\u202e/u)
      // SMTP allows at most 998 bytes in a line.
      expect(Math.max(...(first?.raw ?? "").split("\r\n").map((line) => line.length))).toBeLessThan(998)
    },
    { config: { subject: "{{type}} {{id}} {{/data/object/note}}", text: "{{id}}\n{{/data/object/note}}" } },
  )

  test(
    "is bounded, however much an event fills in",
    function* (sink, smtp) {
      const note = "é".repeat(900_000)
      yield* sink.send([entry(1, { body: bytes(JSON.stringify({ ...envelope(1, { note }) })) })])
      const { mail } = last(smtp)
      expect(mail.subject?.length).toBeLessThanOrEqual(200)
      expect(mail.text).toEndWith("é…\n")
      expect(mail.text?.length).toBeLessThanOrEqual(256 * 1024 + 1)
    },
    { config: { subject: "{{/data/object/note}}", text: "{{/data/object/note}}" } },
  )
})

const bodyOf = (type: string, object: unknown) => ({
  body: bytes(JSON.stringify({ ...envelope(1), data: { type, object } })),
})

describe("ids of mails", () => {
  test("are the same at each attempt, and differ by event, replay and digest", function* (sink, smtp) {
    for (const batch of [[entry(1)], [entry(1)], [entry(2)], [{ ...entry(1), replayed: true }], entries(2)]) {
      yield* sink.send(batch)
    }
    const [one, again, ...others] = smtp.taken.map(({ mail }) => mail.messageId)
    expect(again).toBe(one)
    expect(one).toMatch(/^<relay\.[0-9a-f]{40}@example\.com>$/)
    expect(new Set([one, ...others]).size).toBe(4)
  })

  it.live("differ where two sinks mail other words to the same people", function* () {
    const smtp = yield* started()
    for (const text of ["all of it {{/data}}", "please act"]) {
      const sink = yield* openEmail(() => ({ server: smtp.server, text }))
      yield* sink.send([entry(1)])
    }
    expect(new Set(smtp.taken.map(({ mail }) => mail.messageId)).size).toBe(2)
  })

  test("refer to one thread for the same object, and to none that other mails share", function* (sink, smtp) {
    const type = "connected_account.refresh_failed"
    for (const [sequence, id] of [
      [1, "a"],
      [2, "a"],
      [3, "b"],
    ] as const)
      yield* sink.send([typed(sequence, type, { id })])
    const threads = smtp.taken.map(({ mail }) => mail.references)
    expect(threads[0]).toMatch(/^<thread\.[0-9a-f]{40}@example\.com>$/)
    expect(threads[1]).toBe(threads[0])
    expect(threads[2]).not.toBe(threads[0])
    expect(smtp.taken.map(({ mail }) => mail.inReplyTo)).toEqual(threads)
  })

  test(
    "put a recovery into the thread of its failure",
    function* (sink, smtp) {
      yield* sink.send([typed(1, "connected_account.refresh_failed", { id: "cal_1" })])
      yield* sink.send([typed(2, "connected_account.reconnected", { id: "cal_1" })])
      expect(smtp.taken[1]?.mail.references).toBe(smtp.taken[0]?.mail.references ?? "")
      expect(smtp.taken[1]?.mail.subject).toStartWith("Resolved: A calendar has lost its access")
    },
    { config: { resolve: true } },
  )
})

describe("connections to an SMTP server", () => {
  test("are reused for several mails, and reopened if the server ended them", function* (sink, smtp) {
    for (const one of entries(5)) yield* sink.send([one])
    expect(smtp.connections()).toEqual({ ever: 1, now: 1 })
    const again = yield* Effect.promise(async () => {
      await smtp.close()
      return startSmtp({}, smtp.port)
    })
    yield* Effect.sleep("50 millis")
    yield* sink.send([entry(6)])
    expect(again.connections().ever).toBe(1)
    expect(again.taken).toHaveLength(1)
    yield* Effect.promise(again.close)
  })

  let stalled = true
  let asked = false
  test(
    "are given up with a mail that is interrupted, which goes whole by the next",
    function* (sink, smtp) {
      const sending = yield* Effect.forkChild(sink.send([entry(1)]))
      while (!asked) yield* Effect.sleep("5 millis")
      yield* Fiber.interrupt(sending)
      stalled = false
      yield* sink.send([entry(2)])
      expect(smtp.taken.map(({ mail }) => /evt_\d/.exec(mail.text ?? "")?.[0])).toEqual(["evt_2"])
      expect(smtp.connections().ever).toBe(2)
    },
    // A server that doesn't answer is like a frozen server.
    {
      options: {
        onMailFrom: (_, __, done) => {
          asked = true
          if (!stalled) done()
        },
      },
    },
  )
})

describe("a session", () => {
  it.live("goes to the current address of the name, not to one that the library cached", function* () {
    const smtp = yield* started()
    dnsCache.set("localhost", { value: { addresses: ["127.0.0.9"] }, expires: Date.now() + 300_000 })
    const session = yield* SmtpSession.open({ host: "localhost", port: smtp.port, ignoreTLS: true }, undefined)
    yield* session.ping
    expect(smtp.connections().ever).toBe(1)
  })

  const mail = Buffer.from("Subject: hello\r\n\r\nhello\r\n")
  /** Sends a mail to a server that answers all commands except one. "." is the end of the mail. */
  const unanswered = Effect.fnUntraced(function* (silentAt: string) {
    const arrived = yield* Deferred.make<{ readonly answer: () => void }>()
    const server = createServer((socket) => {
      const answer = (command: string, text: string) =>
        command === silentAt
          ? Deferred.doneUnsafe(arrived, Effect.succeed({ answer: () => socket.write(text) }))
          : socket.write(text)
      answer("CONN", "220 here\r\n")
      const answers = { EHLO: "250-here\r\n250 AUTH PLAIN\r\n", AUTH: "235 ok\r\n", DATA: "354 go on\r\n" }
      socket
        .on("error", () => {})
        .on("data", (chunk) => {
          const [command = ""] = /^[A-Z]{4}|\.(?=\r\n$)/.exec(chunk.toString()) ?? []
          if (command !== "")
            answer(command, Object.hasOwn(answers, command) ? answers[command as "EHLO"] : "250 ok\r\n")
        })
    })
    const { port } = yield* listening(server)
    const sending = SmtpSession.open(
      { host: "127.0.0.1", port, ignoreTLS: true },
      { user: "relay", pass: "secret" },
    ).pipe(
      Effect.flatMap((session) => session.send({ from: "relay@example.com", to: ["oncall@example.com"] }, mail)),
      Effect.scoped,
      Effect.forkChild,
    )
    const fiber = yield* sending
    const { answer } = yield* Deferred.await(arrived)
    return { fiber, answer }
  })

  for (const [silentAt, command, minutes] of [
    ["CONN", "CONN", 1],
    ["EHLO", "EHLO", 1],
    ["AUTH", "AUTH", 1],
    ["MAIL", "MAIL FROM", 5],
    ["RCPT", "MAIL FROM", 5],
    ["DATA", "MAIL FROM", 5],
  ] as const) {
    it.effect(`ends after ${minutes} min if the server leaves ${silentAt} without an answer`, function* () {
      const { fiber: sending } = yield* unanswered(silentAt)
      yield* TestClock.adjust(Duration.subtract(Duration.minutes(minutes), Duration.seconds(1)))
      expect(sending.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("1 second")
      expect(yield* Effect.flip(Fiber.join(sending))).toMatchObject({ code: "ETIMEDOUT", command })
    })
  }

  it.effect("waits for a greeting that arrives after 40 seconds", function* () {
    const { fiber, answer } = yield* unanswered("CONN")
    yield* TestClock.adjust("40 seconds")
    answer()
    expect(yield* Fiber.join(fiber)).toEqual([])
  })

  it.effect("waits for the confirmation of a mail for as long as the lane does", function* () {
    const { fiber: sending } = yield* unanswered(".")
    yield* TestClock.adjust("11 minutes")
    expect(sending.pollUnsafe()).toBeUndefined()
  })
})

describe("what an SMTP server says", () => {
  const said = (
    title: string,
    options: NonNullable<Parameters<typeof startSmtp>[0]>,
    expected: { readonly _tag: Reason["_tag"]; readonly message: RegExp },
    config: Record<string, unknown> = {},
  ) =>
    test(
      title,
      function* (sink) {
        const reason = yield* reasonOf(sink.send([entry(1)]))
        expect(reason?._tag).toBe(expected._tag)
        expect(reason?.message).toMatch(expected.message)
        expect(reason?.message).not.toMatch(/example\.com/)
      },
      { options, config },
    )

  const rcpt = (code: number, text: string) => ({
    onRcptTo: (_: unknown, __: unknown, done: (error?: Error) => void) => done(reply(code, text)),
  })
  const data = (code: number, text: string) => ({
    onData: (stream: NodeJS.ReadableStream, _: unknown, done: (error?: Error) => void) => {
      stream.on("end", () => done(reply(code, text))).resume()
    },
  })
  const sender = (code: number, text: string) => ({
    onMailFrom: (_: unknown, __: unknown, done: (error?: Error) => void) => done(reply(code, text)),
  })

  said("a list that is looked at first: the mail is retried", rcpt(450, "4.2.0 greylisted oncall@example.com"), {
    _tag: "DeliveryFailed",
    message: /\(450 4\.2\.0; it says "greylisted \*\*\*"\)/,
  })
  said("a mailbox that is full: the mail is retried", data(452, "4.2.2 full"), {
    _tag: "DeliveryFailed",
    message: /452/,
  })
  said("a mail that is refused: it is a dead letter", data(554, "5.7.1 spam of relay@example.com"), {
    _tag: "DeliveryRejected",
    message: /refuses the mail \(554 5\.7\.1; it says "spam of \*\*\*"\)/,
  })
  said(
    "a mail that is too large by what the server says first",
    { size: 500 },
    {
      _tag: "DeliveryRejected",
      message: /a mail of \d+ bytes is larger than it takes/,
    },
  )
  said("a mail that is too large by its answer", data(552, "5.3.4 too large"), {
    _tag: "DeliveryRejected",
    message: /a mail of \d+ bytes is larger than it takes/,
  })
  said("that it is busy: the lane waits", sender(421, "4.3.2 shutting down"), {
    _tag: "SinkUnavailable",
    message: /127\.0\.0\.1:\d+ can't/,
  })
  said(
    "that there are too many mails: the lane waits longer",
    sender(454, "4.7.0 Throttling failure: Maximum sending rate exceeded"),
    {
      _tag: "SinkThrottled",
      message: /asks for fewer mails/,
    },
  )
  said(
    "that a login fails for now: the lane waits",
    { allowInsecureAuth: true, onAuth: (_, __, done) => done(reply(454, "4.7.0 temporary failure")) },
    { _tag: "SinkUnavailable", message: /454/ },
    { auth: { username: "relay", password: "a password" } },
  )
  const some = (code: number) => ({
    onRcptTo: ({ address }: { address: string }, _: unknown, done: (error?: Error) => void) =>
      address.startsWith("two") ? done(reply(code, `no two@example.com`)) : done(),
  })
  const three = { to: ["one@example.com"], cc: ["three@example.com", "two@example.com"] }
  said(
    "that one of the addresses is wrong: the mail is a dead letter that says which",
    some(550),
    {
      _tag: "DeliveryRejected",
      message: /did not take the mail for "cc"\[1\] \(550; it says "no \*\*\*"\); the other addresses have it/,
    },
    three,
  )
  said(
    "that one of the addresses can't be had now: the mail is retried",
    some(451),
    {
      _tag: "DeliveryFailed",
      message: /"cc"\[1\] \(451; it says "no \*\*\*"\).*to these alone/,
    },
    three,
  )

  test(
    "is kept with what failed, without the password",
    function* (sink) {
      const reason = yield* reasonOf(sink.send([entry(1)]))
      expect(reason?.answer && Redacted.value(reason.answer)).toBe("554 5.7.1 no *** here")
    },
    {
      options: {
        allowInsecureAuth: true,
        onAuth: (_, __, done) => done(null, { user: 1 }),
        ...data(554, "5.7.1 no a-long-password here"),
      },
      config: { auth: { username: "relay", password: "a-long-password" } },
    },
  )
})

describe("a mail that some addresses have not got", () => {
  const three = { to: ["one@example.com", "two@example.com"], cc: ["three@example.com"] }
  const asked: Array<string> = []
  const turns = new Map<string, ReadonlyArray<number>>([
    ["two@example.com", [451, 250]],
    ["three@example.com", [452, 550, 250]],
  ])
  test(
    "goes to them alone when it is tried again, with the same Message-ID",
    function* (sink, smtp) {
      expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({ _tag: "DeliveryFailed" })
      expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({ _tag: "DeliveryRejected" })
      yield* sink.send([entry(1)])
      expect(smtp.taken.map(({ to }) => to)).toEqual([["one@example.com"], ["two@example.com"], ["three@example.com"]])
      expect(new Set(smtp.taken.map(({ mail }) => mail.messageId)).size).toBe(1)
      // The sink forgets the partial delivery once all addresses have the mail.
      asked.length = 0
      yield* sink.send([entry(1)])
      expect(asked).toHaveLength(3)
    },
    {
      config: three,
      options: {
        onRcptTo: ({ address }, _, done) => {
          asked.push(address)
          const [code = 250, ...others] = turns.get(address) ?? []
          turns.set(address, others)
          done(code === 250 ? null : reply(code, "not now"))
        },
      },
    },
  )
})

describe("a server that takes so many mails a connection", () => {
  const counts = new Map<string, number>()
  test(
    "gets the next one by another connection at once",
    function* (sink, smtp) {
      for (const one of entries(7)) yield* sink.send([one])
      expect([smtp.taken.length, smtp.connections().ever]).toEqual([7, 3])
    },
    {
      options: {
        onMailFrom: (_, { id }, done) => {
          const count = (counts.get(id) ?? 0) + 1
          counts.set(id, count)
          done(count > 3 ? reply(421, "4.7.0 Too many mails on this connection") : null)
        },
      },
    },
  )
})

it.live("a server that answers DATA without 354 has not got the mail", function* () {
  const server = createServer((socket) => {
    socket.write("220 here\r\n")
    socket.on("data", () => socket.write("250 fine\r\n"))
  })
  const { port } = yield* listening(server)
  const sink = yield* openEmail(() => ({ server: `127.0.0.1:${port}` }))
  expect(yield* reasonOf(sink.send([entry(1)]))).toMatchObject({
    _tag: "SinkMisconfigured",
    message: expect.stringContaining("answered DATA without 354"),
  })
})

it.live("a server that aborts the TLS that it offered isn't reported as offering none", function* () {
  const server = createServer((socket) => {
    socket.write("220 here\r\n")
    socket
      .on("error", () => {})
      .on("data", (chunk) => {
        const isCommand = /^[A-Z]/.test(chunk.toString("latin1"))
        if (!isCommand) return socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 70]))
        socket.write(/^EHLO/.test(chunk.toString()) ? "250-here\r\n250 STARTTLS\r\n" : "220 go on\r\n")
      })
  })
  const { port } = yield* listening(server)
  const sink = yield* openEmail(() => ({ server: `127.0.0.1:${port}`, security: "starttls" }))
  expect(yield* reasonOf(sink.check)).toMatchObject({
    _tag: "SinkMisconfigured",
    message: expect.stringMatching(/the TLS handshake failed.*probably it wants another version of TLS/),
  })
})

describe("a password", () => {
  const password = "a password of this test"
  const auth = { username: "relay", password }
  const plain = Buffer.from(`\0relay\0${password}`).toString("base64")

  for (const [title, words, says] of [
    ["TLS, and a login after that", ["STARTTLS"], /wants TLS first: set "security"/],
    ["no login", ["8BITMIME", "SIZE 1000"], /offers no login that the relay knows/],
    [
      "logins that the relay does not know",
      ["AUTH GSSAPI XOAUTH2 AUTHENTICATE"],
      /offers no login that the relay knows/,
    ],
  ] as const) {
    it.live(`isn't sent to a server that offers ${title}`, function* () {
      const { server, sent } = yield* greeting(...words)
      const sink = yield* openEmail(() => ({ server, auth }))
      expect(yield* reasonOf(sink.check)).toMatchObject({
        _tag: "SinkMisconfigured",
        message: expect.stringMatching(says),
      })
      expect(sent.join("")).not.toMatch(/AUTH/)
    })
  }

  it.live("is sent by a login that is offered, in whichever form", function* () {
    for (const word of ["AUTH LOGIN PLAIN", "auth=plain"]) {
      const { server, sent } = yield* greeting("STARTTLS", word)
      const sink = yield* openEmail(() => ({ server, auth }))
      expect((yield* reasonOf(sink.check))?.message).toMatch(/refuses the user or its password/)
      expect(sent.join("")).toContain(`AUTH PLAIN ${plain}`)
    }
  })
})

suiteUnless(lacking, "TLS to an SMTP server", () => {
  const directory = temporaryDirectory("email-")
  const authority = makeAuthority(directory)
  const { pem } = authority.issue("server", "IP:127.0.0.1")
  const { pem: elsewhere } = authority.issue("elsewhere", "DNS:elsewhere.example.com")
  const { pem: expired } = authority.issue("expired", "IP:127.0.0.1", -1)
  const tls = { ca: authority.ca }
  const password = "a password of this test"
  const options = {
    ...pem,
    authOptional: false,
    onAuth: (
      given: { readonly username?: string | undefined; readonly password?: string | null | undefined },
      _: unknown,
      done: (error: Error | null, response?: { user: string }) => void,
    ) => (given.password === password ? done(null, { user: given.username ?? "" }) : done(reply(535, "5.7.8 no"))),
  }
  const auth = { username: "relay", password }

  for (const [title, method, more, config] of [
    ["STARTTLS and PLAIN", "PLAIN", {}, { security: "starttls" }],
    ["STARTTLS and LOGIN", "LOGIN", {}, { security: "starttls" }],
    ["TLS from the first byte", "PLAIN", { secure: true }, { security: "tls" }],
  ] as const) {
    test(
      `carries mails by ${title}, logged in`,
      function* (sink, smtp) {
        yield* sink.check
        yield* sink.send([entry(1)])
        expect(last(smtp)).toMatchObject({ secure: true, user: "relay" })
      },
      { options: { ...options, ...more, authMethods: [method] }, config: { ...config, tls, auth } },
    )
  }

  for (const [title, certificate, trusted, says] of [
    ["of an authority that nobody named", pem, {}, /certificate can't be trusted.*"ca"/],
    ["of another host", elsewhere, tls, /certificate can't be trusted \(certificate of another host\)/],
    ["that has expired", expired, tls, /certificate can't be trusted \(expired certificate\)/],
  ] as const) {
    for (const security of ["starttls", "tls"]) {
      test(
        `is not spoken by ${security} with a certificate ${title}`,
        function* (sink, smtp) {
          const reason = yield* reasonOf(sink.send([entry(1)]))
          expect(reason?._tag).toBe("SinkMisconfigured")
          expect(reason?.message).toMatch(says)
          expect(smtp.taken).toEqual([])
        },
        { options: { ...certificate, secure: security === "tls" }, config: { security, tls: trusted } },
      )
    }
  }
})
