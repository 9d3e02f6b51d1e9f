/**
 * A connection to an SMTP server, logged in and ready to send mails one after the
 * other. It wraps nodemailer's `SMTPConnection` in Effects.
 *
 * **Guarantee.** If a mail is interrupted, before or after the dot that ends it, its
 * connection is closed. So a mail never arrives in parts. Every call ends, even if
 * the server disappears during it. If the server waits for the rest of a command,
 * for example because the network changed a byte, the call ends after a minute, or
 * after five minutes from `MAIL` on. Only the confirmation of a mail may take longer.
 */
import { Readable } from "node:stream"
import { Deferred, Effect, Schema, type Scope } from "effect"
import type SMTPConnection from "nodemailer/lib/smtp-connection"

/** The failure, as nodemailer reports it. Its texts may hold addresses and parts of the mail. */
export class SmtpError extends Schema.TaggedError<SmtpError>()("SmtpError", {
  /** nodemailer's code: `EAUTH`, `EENVELOPE`. */
  code: Schema.String,
  /** The command that was answered, `MAIL FROM`; `CONN` before there is one. */
  command: Schema.String,
  /** The server's reply, and its code; empty and 0 without one. */
  reply: Schema.String,
  status: Schema.Number,
  /** The system's code with nodemailer's sentence. */
  detail: Schema.String,
}) {}

type Reported = Error & {
  readonly code?: string | undefined
  readonly originalCode?: string | undefined
  readonly command?: string | undefined
  readonly response?: string | undefined
  readonly responseCode?: number | undefined
  readonly recipient?: string | undefined
}

const smtpError = (error: Reported): SmtpError =>
  new SmtpError({
    code: error.code ?? "",
    command: error.command ?? "",
    reply: error.response ?? "",
    status: error.responseCode ?? 0,
    detail: `${error.originalCode ?? ""} ${error.message}`.trim(),
  })

export interface Envelope {
  readonly from: string
  readonly to: ReadonlyArray<string>
}

/** An address that the server refused while it took the mail for others. */
export interface Refused {
  readonly address: string
  readonly error: SmtpError
}

export interface Session {
  /** False once the server or an error has ended it. */
  readonly isOpen: () => boolean
  /**
   * Whether it has sent a mail. A server may close it for that reason, and accept the next mail on another connection.
   */
  readonly isUsed: () => boolean
  /** Sends one mail. Returns the addresses that did not get it. */
  readonly send: (envelope: Envelope, message: Buffer) => Effect.Effect<ReadonlyArray<Refused>, SmtpError>
  /** Waits for the server's answer to RSET, which changes nothing. */
  readonly ping: Effect.Effect<void, SmtpError>
}

export interface Login {
  readonly user: string
  readonly pass: string
}

/** The relay's own error codes: the server offers no login, or none before TLS. */
export const noLogin = "NO_LOGIN"
export const noLoginWithoutTls = "NO_LOGIN_WITHOUT_TLS"

/**
 * The login that the server offers in its answer to EHLO. The library alone would send the password to a server that
 * offers none, also in the clear.
 */
const offered = (greeting: string): Effect.Effect<string, SmtpError> => {
  const words = greeting.split(/\r?\n/).map((line) => line.slice(4).toUpperCase().split(/[ =]+/))
  const methods = new Set(words.filter(([name]) => name === "AUTH").flatMap(([, ...methods]) => methods))
  const method = ["PLAIN", "LOGIN", "CRAM-MD5"].find((one) => methods.has(one))
  if (method !== undefined) return Effect.succeed(method)
  const code = words.some(([name]) => name === "STARTTLS") ? noLoginWithoutTls : noLogin
  return Effect.fail(new SmtpError({ code, command: "AUTH", reply: "", status: 0, detail: "" }))
}

type Options = NonNullable<ConstructorParameters<typeof SMTPConnection>[0]>

/** Timeouts of the parts of a session. */
const limits = {
  connect: "8 seconds",
  /** Connecting with the greeting, EHLO and STARTTLS. Servers that look up names greet after more than half a minute. */
  hello: "60 seconds",
  login: "60 seconds",
  /** MAIL, RCPT and DATA up to its 354: RFC 5321, section 4.5.3.2. */
  envelope: "5 minutes",
} as const

const noAnswer = (command: string): SmtpError =>
  new SmtpError({ code: "ETIMEDOUT", command, reply: "", status: 0, detail: "Timeout" })

/** Connects, speaks TLS as the options say, and logs in. Closed with the scope. */
export const open = Effect.fnUntraced(function* (
  options: Options,
  login: Login | undefined,
): Effect.fn.Return<Session, SmtpError, Scope.Scope> {
  const { default: Connection } = yield* Effect.promise(() => import("nodemailer/lib/smtp-connection"))
  const { dnsCache } = yield* Effect.promise(() => import("nodemailer/lib/shared"))
  // The library goes on using an address for five minutes, even if nothing listens there any more.
  dnsCache.delete(options.host ?? "")
  let isOpen = true
  let isUsed = false
  const connection = yield* Effect.acquireRelease(
    Effect.sync(() => new Connection(options)),
    (connection) =>
      Effect.sync(() => {
        if (isOpen) connection.quit()
        connection.close()
      }),
  )
  // An error without a listener ends the process.
  const close = () => {
    isOpen = false
  }
  connection.on("error", close).on("end", close)

  const call = <A>(start: (done: (error?: Error | null, value?: A) => void) => void): Effect.Effect<A, SmtpError> =>
    Effect.callback((resume) => {
      const over = () => {
        connection.off("error", failed)
        connection.off("end", ended)
      }
      const failed = (error: Error) => {
        over()
        resume(Effect.fail(smtpError(error)))
      }
      // If a connection ends with a reply, the library reports the end before the reply.
      const ended = () =>
        setImmediate(() => failed(Object.assign(new Error("Connection closed"), { code: "ECONNECTION" })))
      connection.on("error", failed)
      connection.on("end", ended)
      start((error, value) => {
        if (error) return failed(error)
        over()
        resume(Effect.succeed(value as A))
      })
      return Effect.sync(() => {
        over()
        isOpen = false
        connection.close()
      })
    })

  const unreachable = Effect.sync(() => connection.stage === "init").pipe(
    Effect.delay(limits.connect),
    Effect.flatMap((isInit) => (isInit ? Effect.fail(noAnswer("CONN")) : Effect.never)),
  )
  yield* call((done) => connection.connect(done)).pipe(
    Effect.raceFirst(unreachable),
    Effect.timeoutOrElse({
      duration: limits.hello,
      orElse: () => Effect.fail(noAnswer(connection.lastServerResponse === false ? "CONN" : "EHLO")),
    }),
  )
  if (login !== undefined) {
    const method = yield* offered(String(connection.lastServerResponse))
    yield* call((done) => connection.login({ ...login, method }, done)).pipe(
      Effect.timeoutOrElse({ duration: limits.login, orElse: () => Effect.fail(noAnswer("AUTH")) }),
    )
  }

  /** The library takes any 2xx reply to DATA as permission to send, and the next reply as the mail's. */
  const afterGoAhead = (message: Buffer, onGoAhead: () => void) =>
    Readable.from(
      (function* () {
        onGoAhead()
        const reply = String(connection.lastServerResponse)
        if (!reply.startsWith("354")) throw new Error(reply)
        yield message
      })(),
      { objectMode: false },
    )

  return {
    isOpen: () => isOpen,
    isUsed: () => isUsed,
    send: ({ from, to }, message) =>
      Effect.gen(function* () {
        const goAhead = Deferred.makeUnsafe<void>()
        const onGoAhead = () => Deferred.doneUnsafe(goAhead, Effect.void)
        const late = Deferred.await(goAhead).pipe(
          Effect.timeoutOrElse({ duration: limits.envelope, orElse: () => Effect.fail(noAnswer("MAIL FROM")) }),
          Effect.andThen(Effect.never),
        )
        return yield* call<{ readonly rejectedErrors?: ReadonlyArray<Reported> | undefined }>((done) =>
          connection.send({ from, to: [...to], size: message.length }, afterGoAhead(message, onGoAhead), done),
        ).pipe(Effect.raceFirst(late))
      }).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            isUsed = true
          }),
        ),
        Effect.map(({ rejectedErrors = [] }) =>
          rejectedErrors.map((error) => ({ address: error.recipient ?? "", error: smtpError(error) })),
        ),
      ),
    ping: Effect.asVoid(call((done) => connection.reset(done))).pipe(
      Effect.timeoutOrElse({ duration: limits.login, orElse: () => Effect.fail(noAnswer("RSET")) }),
    ),
  }
})
