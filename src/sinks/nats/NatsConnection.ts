/**
 * A connection to a NATS server by the NATS project's client, as Effects.
 *
 * **Guarantee.** It never reconnects: a message that was published and not
 * acknowledged is not sent again behind the lane's back. A call ends in time, also
 * when the server hangs.
 *
 * **Gotcha.** A subject may have listeners that aren't streams. Their answers don't
 * count as acknowledgements.
 */
import type { Socket } from "node:net"
import { connect as connectTls, type TLSSocket } from "node:tls"
import { JetStreamApiCodes, JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream"
import {
  credsAuthenticator,
  errors,
  headers,
  type NatsConnection,
  NatsConnectionImpl,
  type NodeConnectionOptions,
  nkeyAuthenticator,
  setTransportFactory,
} from "@nats-io/transport-node"
import {
  errors as clientErrors,
  Kind as ParsedKind,
  Parser,
  type ParserEvent,
  parseSemVer,
} from "@nats-io/transport-node/lib/nats-base-client.js"
import { NodeTransport, nodeResolveHost } from "@nats-io/transport-node/lib/node_transport.js"
import { Clock, Effect, Redacted, type Scope } from "effect"
import { hasProperty, isObject } from "effect/Predicate"
import * as HttpTransport from "../../runtime/HttpTransport.ts"
import { type AuthConfig, fits, type Message } from "./NatsConfig.ts"
import { type Kind, NatsError } from "./NatsErrors.ts"

// The socket of the NATS project's client, with two additions for a long-running process: nothing
// is left of an abandoned connection, and the certificate is checked against the host that the
// config names.

/** The message of the error when a server demands TLS and the config has none. */
const tlsMissing = "the server demands TLS"

/** Stands for the words of a server that refuses the relay during the handshake of TLS, which can't be read. */
const answerInPlain = "without TLS, as a server does that takes no more connections"

/**
 * The longest line or message of a server, in bytes. The first line names the servers of a cluster, and the messages
 * describe streams and their stored messages.
 */
const longestLine = 1024 * 1024

type Host = Parameters<NodeTransport["connect"]>[0]

/** An error of an abandoned socket ends the process if nothing listens for it. */
const guarded = <S extends Socket>(socket: S): S => {
  const remove = socket.removeAllListeners.bind(socket)
  const ignore = () => {}
  socket.removeAllListeners = (...event: [string?]) => {
    remove(...event)
    return socket.on("error", ignore)
  }
  return socket.on("error", ignore)
}

class Transport extends NodeTransport {
  /** The server's words before the client answers them. */
  #greeting = ""
  /** Whether the server has reported an error after its greeting. */
  #isRefused = false
  /** Frames to be written together. */
  readonly #frames: Array<Uint8Array> = []

  override async connect(host: Host, options: NodeConnectionOptions): Promise<void> {
    // Without a host, the certificate of a server that is given by its address is checked against "localhost".
    const named = { ...options.tls, host: host.tlsName || host.hostname }
    await super.connect(host, options.tls ? { ...options, tls: named } : options).finally(() => {
      // A server that takes no more connections says so after its greeting, without TLS, and closes.
      const [, refusal] = /^-ERR '(.*)'/m.exec(this.#greeting) ?? []
      if (refusal === undefined) return
      // The client would not try its other servers after the end of a connection.
      this.connected = false
      throw new clientErrors.ProtocolError(refusal)
    })
  }

  /** The client reports `closeError`, and the server's last error only without it. The server's error says more. */
  override closed() {
    return super.closed().finally(() => {
      if (this.#isRefused) delete this.closeError
    })
  }

  /** The server waits for the handshake before it greets. */
  override async tlsFirst(host: Host): Promise<TLSSocket> {
    this.socket = await this.dial(host)
    this.socket.removeAllListeners()
    return this.#greetedBy(await this.startTLS())
  }

  override async dial(host: Host): Promise<Socket> {
    return this.#greetedBy(guarded(await super.dial(host)))
  }

  /**
   * Limits the greeting: the client collects the first line without a limit until it ends, and then removes all
   * listeners.
   */
  #greetedBy<S extends Socket>(socket: S): S {
    return socket.on("data", (bytes: Buffer) => {
      this.#greeting += bytes
      if (this.#greeting.length > longestLine) socket.destroy(new SyntaxError("a greeting without an end"))
    })
  }

  override startTLS(): Promise<TLSSocket> {
    const { tls } = this.options
    if (!tls) return Promise.reject(new Error(tlsMissing))
    return new Promise((resolve, reject) => {
      // Guarded from the start: the server's refusal of the certificate may arrive together with its consent to TLS.
      const socket = guarded(
        connectTls({ ...tls, socket: this.socket, servername: this.tlsName }, () => {
          socket.removeAllListeners()
          resolve(socket)
        }),
      )
      let failure: Error | undefined
      socket.on("error", (error: NodeJS.ErrnoException) => {
        const isPlain = error.code === "ERR_SSL_WRONG_VERSION_NUMBER" && this.#greeting !== ""
        failure = isPlain ? new clientErrors.ProtocolError(answerInPlain) : error
      })
      socket.on("close", () => reject(failure))
    })
  }

  /**
   * Writes the frames of a login in one packet. If the server has closed the connection, the second of two writes fails,
   * and the socket is closed before the server's words are read.
   */
  override send(frame: Uint8Array): void {
    if (this.#frames.push(frame) === 1) queueMicrotask(() => super.send(Buffer.concat(this.#frames.splice(0))))
  }

  /**
   * The client collects a line of any length. If it doesn't understand a line, it prints the bytes, stops reading and
   * keeps the connection. So it gets neither, and the connection ends.
   */
  override async *iterate(): AsyncIterableIterator<Uint8Array> {
    let begun = 0
    const push = ({ kind, data }: ParserEvent): void => {
      begun = 0
      if (kind === ParsedKind.ERR) this.#isRefused = true
      if (kind === ParsedKind.INFO) parseSemVer(JSON.parse(String(Buffer.from(data ?? []))).version)
    }
    const reader = new Parser({ push })
    try {
      for await (const bytes of super.iterate()) {
        if (begun > longestLine) return
        begun += bytes.length
        reader.parse(bytes)
        yield bytes
      }
    } catch {
      // It is not understood.
    } finally {
      void this.close(new SyntaxError("not understood"))
    }
  }

  override close(error?: Error): Promise<void> {
    // If the client gives up before the server's first line, it would leave the connection open.
    if (!this.connected) this.discard()
    return super.close(error)
  }
}

const transport = { factory: () => new Transport(), dnsResolveFn: nodeResolveHost }

const seconds = 1_000
/** The timeout for one server of the list. A lane gives all of them ten seconds. */
const connectTimeout = 3 * seconds
const ackTimeout = 8 * seconds
/** JetStream's code while its servers have no leader. */
const noQuorum = 10008
/** The timeout of requests whose answers are optional. */
const askTimeout = 2 * seconds
/** After three of these without an answer, an idle connection counts as dead. */
const pingInterval = 30 * seconds

export interface Options {
  /** Host and port, such as `127.0.0.1:4222`. */
  readonly servers: ReadonlyArray<string>
  /** Absent: no TLS. Empty: TLS with the system's authorities. */
  readonly tls: HttpTransport.Certificates | undefined
  /** Whether the handshake of TLS comes before the server's greeting. */
  readonly tlsFirst: boolean
  readonly auth: AuthConfig | undefined
  readonly inboxPrefix: string
}

/** The facts about the stream that takes a subject. */
export interface Stream {
  readonly name: string
  /** In bytes, headers included. `undefined` without a limit, and if the user may not ask. */
  readonly largest: number | undefined
  /** Whether it acknowledges messages. */
  readonly acknowledges: boolean
}

export interface Connection {
  /** False once the server or an error has ended it. */
  readonly isOpen: () => boolean
  /** The largest message that the server takes, in bytes, headers included. */
  readonly largest: number
  /** Publishes a message; succeeds when a stream has stored it, or had it already. */
  readonly publish: (message: Message) => Effect.Effect<void, NatsError>
  /** Waits for the server's answer to a ping. */
  readonly ping: Effect.Effect<void, NatsError>
  /** The stream that takes a subject. `undefined` if the user may not ask. Fails with `noStream`. */
  readonly streamOf: (subject: string) => Effect.Effect<Stream | undefined, NatsError>
  /** Whether the user may publish to a subject. `undefined` if the server does not say. */
  readonly mayPublish: (subject: string) => Effect.Effect<boolean | undefined>
}

const utf8 = new TextEncoder()

const loginOf = (auth: AuthConfig) => {
  const { credentials, nkey, token, username, password } = auth
  // The client looks for the line break behind the last line.
  if (credentials) return { authenticator: credsAuthenticator(utf8.encode(`${Redacted.value(credentials)}\n`)) }
  if (nkey) return { authenticator: nkeyAuthenticator(utf8.encode(Redacted.value(nkey).trim())) }
  if (token) return { token: Redacted.value(token) }
  return { ...(username && { user: username }), ...(password && { pass: Redacted.value(password) }) }
}

const connect = (options: Options, now: number): Effect.Effect<NatsConnection, NatsError> =>
  Effect.callback((resume) => {
    // It applies to the whole process, so another user of the client could replace it.
    setTransportFactory(transport)
    const connecting = NatsConnectionImpl.connect({
      servers: [...options.servers],
      name: "relay",
      // `null`: no TLS, even if the server offers it.
      tls: options.tls === undefined ? null : { ...options.tls, handshakeFirst: options.tlsFirst },
      inboxPrefix: options.inboxPrefix,
      timeout: connectTimeout,
      pingInterval,
      reconnect: false,
      ignoreClusterUpdates: true,
      noAsyncTraces: true,
      ...(options.auth && loginOf(options.auth)),
    })
    connecting.then(
      (connected) => resume(Effect.succeed(connected)),
      (error) => resume(Effect.fail(refusalFor(error, options, now))),
    )
    // A connection attempt can't be stopped: the connection is closed once it is there.
    return Effect.sync(() => void connecting.then((late) => late.close()).catch(() => {}))
  })

/** Connects and logs in; closed with the scope. */
export const open = Effect.fnUntraced(function* (
  options: Options,
): Effect.fn.Return<Connection, NatsError, Scope.Scope> {
  const now = yield* Clock.currentTimeMillis
  const connection = yield* Effect.acquireRelease(connect(options, now), (connection) =>
    Effect.promise(() => connection.close().catch(() => undefined)),
  )
  const streams = jetstream(connection)
  const manager = yield* call(() => jetstreamManager(connection, { checkAPI: false, timeout: askTimeout }))
  const largest = connection.info?.max_payload ?? Number.POSITIVE_INFINITY

  /** Returns `undefined` if the user may not ask. */
  const asked = <A>(ask: () => Promise<A>): Effect.Effect<A | undefined, NatsError> =>
    Effect.catchIf(
      call(ask),
      ({ kind }) => kind === "publishDenied" || kind === "unacknowledged",
      () => Effect.succeed(undefined),
    )

  /** No stream answers if the subject has none, or if its stream has no leader. */
  const explained = (error: NatsError, subject: string): Effect.Effect<never, NatsError> =>
    Effect.matchEffect(
      call(() => manager.streams.find(subject)),
      {
        onSuccess: () => Effect.fail(natsError("noLeader")),
        onFailure: ({ kind, code }) =>
          Effect.fail(kind === "unacknowledged" || code === noQuorum ? natsError("noLeader") : error),
      },
    )

  return {
    isOpen: () => !connection.isClosed(),
    largest,
    publish: ({ subject, id, headers: given, body }) =>
      call(async () => {
        const own = headers()
        for (const [name, value] of given) own.set(name, value)
        const ack: unknown = await streams.publish(subject, body, { headers: own, msgID: id, timeout: ackTimeout })
        if (!hasProperty(ack, "seq") || typeof ack.seq !== "number") throw new SyntaxError("no acknowledgement")
      }).pipe(
        Effect.catchIf(
          ({ kind }) => kind === "noStream",
          (error) => explained(error, subject),
        ),
      ),
    ping: Effect.timeoutOrElse(
      call(() => connection.flush()),
      { duration: askTimeout, orElse: () => Effect.fail(new NatsError({ kind: "silent", code: 0, detail: "" })) },
    ),
    streamOf: Effect.fnUntraced(function* (subject) {
      const name = yield* asked(() => manager.streams.find(subject))
      if (name === undefined) return undefined
      const info = yield* asked(() => manager.streams.info(name))
      const { max_msg_size: size = -1, no_ack: isSilent = false } = info?.config ?? {}
      return { name, largest: size < 0 ? undefined : size, acknowledges: !isSilent }
    }),
    mayPublish: (subject) =>
      call(() => connection.request("$SYS.REQ.USER.INFO", undefined, { timeout: askTimeout })).pipe(
        Effect.map((answer) => allows(answer.json(), subject)),
        Effect.orElseSucceed(() => undefined),
      ),
  }
})

const call = <A>(use: () => Promise<A>): Effect.Effect<A, NatsError> =>
  Effect.tryPromise({ try: use, catch: failureOf })

// --- the user's rights ---------------------------------------------------------

const patternsOf = (value: unknown): ReadonlyArray<string> | undefined =>
  Array.isArray(value) && value.length > 0 ? value.filter((one) => typeof one === "string") : undefined

/**
 * Reports whether a server's facts about the user (2.10 or later) allow the subject. `undefined` if it says nothing.
 */
const allows = (answer: unknown, subject: string): boolean | undefined => {
  if (!hasProperty(answer, "data") || !isObject(answer.data)) return undefined
  const { permissions } = answer.data as { readonly permissions?: unknown }
  if (!hasProperty(permissions, "publish") || !isObject(permissions.publish)) return true
  const { allow, deny } = permissions.publish as { readonly allow?: unknown; readonly deny?: unknown }
  const isIn = (patterns: ReadonlyArray<string>) => patterns.some((pattern) => fits(subject, pattern))
  return (patternsOf(allow) === undefined || isIn(patternsOf(allow) ?? [])) && !isIn(patternsOf(deny) ?? [])
}

// --- reading an error ------------------------------------------------------------

const natsError = (kind: Kind, detail = "", code = 0) => new NatsError({ kind, detail, code })

/** The cause of a missing connection. */
const refusal = (error: unknown): NatsError => {
  if (!(error instanceof Error)) return natsError("closed")
  const { message } = error
  if (error instanceof errors.UserAuthenticationExpiredError) return natsError("expired")
  if (error instanceof errors.AuthorizationError) return natsError(/expired/i.test(message) ? "expired" : "refused")
  if (error instanceof errors.TimeoutError) return natsError("silent")
  if (message === tlsMissing) return natsError("tlsMissing")
  if (/does not support 'tls'/.test(message)) return natsError("tlsUnwanted")
  if (error instanceof SyntaxError || /unexpected response/.test(message)) return natsError("foreign")
  if (error instanceof errors.ProtocolError) return natsError("turnedAway", message)
  const failure = HttpTransport.failureOf(error)
  if (HttpTransport.passing[failure] === undefined) return natsError("untrusted", failure)
  return failure === "other" || failure === "reset" ? natsError("closed") : natsError("unreachable", failure)
}

/** Whether the token of a credentials file has expired. The server refuses it without saying why. */
const isExpired = (credentials: string, now: number): boolean => {
  const [, claims = ""] = /BEGIN NATS USER JWT-+\s+[\w-]+\.([\w-]+)\./.exec(credentials) ?? []
  const [, seconds] = /"exp"\s*:\s*(\d+)/.exec(Buffer.from(claims, "base64url").toString()) ?? []
  return seconds !== undefined && Number(seconds) * 1_000 <= now
}

/** The reason why connecting failed, which for some errors depends on the config. */
const refusalFor = (error: unknown, { tls, tlsFirst, auth }: Options, now: number): NatsError => {
  const refused = refusal(error)
  if (refused.kind === "silent" && tls !== undefined && !tlsFirst) return natsError("silentToTls")
  const credentials = auth?.credentials === undefined ? "" : Redacted.value(auth.credentials)
  return refused.kind === "refused" && isExpired(credentials, now) ? natsError("expired") : refused
}

/** Returns why a request failed. The client wraps the reason in its own error. */
const failureOf = (thrown: unknown): NatsError => {
  for (let error = thrown, depth = 0; error instanceof Error && depth < 4; error = error.cause, depth++) {
    if (error instanceof JetStreamApiError) {
      return error.code === JetStreamApiCodes.StreamNotFound
        ? natsError("noStream")
        : natsError("stream", error.message, error.code)
    }
    if (error instanceof errors.PermissionViolationError) {
      return natsError(error.operation === "subscription" ? "inboxDenied" : "publishDenied", error.subject)
    }
    if (error instanceof errors.NoRespondersError) return natsError("noStream")
    if (error instanceof errors.TimeoutError) return natsError("unacknowledged")
    if (error instanceof errors.InvalidArgumentError && /max_payload/.test(error.message)) return natsError("tooLarge")
    if (error instanceof SyntaxError || /invalid ack/.test(error.message)) return natsError("foreignAck")
  }
  return natsError("closed")
}
