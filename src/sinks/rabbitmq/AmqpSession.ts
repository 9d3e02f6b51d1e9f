/**
 * A connection to a broker with one channel in confirm mode: amqplib as Effects.
 *
 * **Guarantee.** A message without an error in the result of `publish` is confirmed:
 * it is in every queue that its routing key leads to, on disk if the queue is
 * durable. An interrupted or failed session is closed with its socket, so none of
 * its messages is written later.
 *
 * **Gotcha.** When the broker closes the channel because of a message, it names
 * neither that message nor the fate of the messages before it.
 */
import { connect as connectTcp, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { type ChannelModel, type ConfirmChannel, connect, credentials, type Message as Returned } from "amqplib"
import { Effect, type Scope } from "effect"
import { type Certificates, userAgent } from "../../runtime/HttpTransport.ts"
import type { AmqpUrl, Message } from "./RabbitMqConfig.ts"
import {
  type AmqpError,
  amqpError,
  blocked,
  hungUp,
  isForKey,
  loginRefused,
  nacked,
  noBroker,
  noLogin,
  preconditionFailed,
  resourceLocked,
  returned,
  timedOut,
  unreachable,
  unwritable,
  vhostRefused,
} from "./RabbitMqErrors.ts"

// Asks a broker why it does not open a virtual host. amqplib drops its words, so
// this logs in again and reads them (AMQP 0-9-1, section 2.2.4).

interface Login {
  readonly url: AmqpUrl
  readonly tls: Certificates | undefined
  readonly mechanism: string
  readonly response: Buffer
}

const patience = "3 seconds"
/** The greeting of a broker has about 500 bytes. */
const longest = 65_536

/** The methods of a connection: their class in two bytes, then their number. */
const method = {
  start: 0x000a_000a,
  startOk: 0x000a_000b,
  tune: 0x000a_001e,
  tuneOk: 0x000a_001f,
  open: 0x000a_0028,
  close: 0x000a_0032,
}

const header = Buffer.from([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1])
const frameEnd = 0xce
/** Bytes of the type, the channel and the size before a frame's payload. */
const before = 7

const short = (text: string): Buffer => Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)])

const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

const frame = (id: number, ...fields: ReadonlyArray<Buffer>): Buffer => {
  const payload = Buffer.concat([number(id), ...fields])
  return Buffer.concat([Buffer.from([1, 0, 0]), number(payload.length), payload, Buffer.from([frameEnd])])
}

/** Returns the answer to a method of the broker, or its words as a text, which is empty unless it refuses. */
const answerTo = (payload: Buffer, { url, mechanism, response }: Login): Buffer | string => {
  switch (payload.length < 4 ? 0 : payload.readUInt32BE()) {
    case method.start:
      return frame(method.startOk, number(0), short(mechanism), number(response.length), response, short("en_US"))
    case method.tune:
      return Buffer.concat([
        frame(method.tuneOk, payload.subarray(4)),
        frame(method.open, short(url.vhost), short(""), Buffer.from([0])),
      ])
    case method.close:
      // The length of the text follows the reply code.
      return payload.subarray(7, 7 + (payload[6] ?? 0)).toString()
    default:
      return ""
  }
}

const openSocket = ({ url, tls }: Login, connected: () => void): Socket => {
  const { host, port } = url.address
  return url.isTls
    ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...tls }, connected)
    : connectTcp({ host, port }, connected)
}

/** Returns the broker's words, or an empty text if it opens the virtual host now or does not answer. */
const vhostRefusal = (login: Login): Effect.Effect<string> =>
  Effect.callback<string>((resume) => {
    let read: Buffer = Buffer.alloc(0)
    const socket = openSocket(login, () => socket.write(header))
    const end = (words: string): void => {
      socket.destroy()
      resume(Effect.succeed(words))
    }
    socket.on("error", () => end(""))
    socket.on("close", () => end(""))
    socket.on("data", (chunk: Buffer) => {
      read = Buffer.concat([read, chunk])
      if (read.length > longest) return end("")
      while (read.length > before) {
        const size = read.readUInt32BE(3)
        if (read.length < before + size + 1) return
        const answer = answerTo(read.subarray(before, before + size), login)
        if (typeof answer === "string") return end(answer)
        socket.write(answer)
        read = read.subarray(before + size + 1)
      }
    })
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed("") }))

export interface SessionOptions {
  readonly url: AmqpUrl
  readonly password: string | undefined
  readonly tls: Certificates | undefined
  /** Milliseconds within which the broker must accept the login. */
  readonly timeout: number
}

export interface Destination {
  readonly exchange: string
  /** Whether the broker returns a message that no queue is bound for. */
  readonly mandatory: boolean
}

export interface Session {
  /** False once the broker or an error has ended it. */
  readonly isOpen: () => boolean
  /** The reason why the broker reads nothing from the relay now; `undefined` when it reads. */
  readonly blocked: () => string | undefined
  /** Publishes in order and waits for the confirms, `timeout` milliseconds at most; errors by index. One call at a time. */
  readonly publish: (
    destination: Destination,
    messages: ReadonlyArray<Message>,
    timeout: number,
  ) => Effect.Effect<ReadonlyMap<number, AmqpError>>
  /**
   * Fails if the exchange is missing (for `""`, the queue that `routingKey` names), or the right to write to it. The
   * check ends the session.
   */
  readonly check: (exchange: string, routingKey: string | undefined) => Effect.Effect<void, AmqpError>
}

/**
 * The broker still confirms messages that were published before an alarm. The relay waits this long for it, in
 * milliseconds.
 */
const afterBlock = 1_000

const textOf = (error: unknown): string => {
  if (!(error instanceof Error)) return ""
  const code = "code" in error && typeof error.code === "string" ? `${error.code} ` : ""
  return `${code}${error.message}`
}

/** An error of an open connection or channel: by the broker's reply code, or else by the system's. */
const errorOf = (error: unknown): AmqpError => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  const [, reply = ""] = /with message "([\s\S]*)"$/.exec(textOf(error)) ?? []
  return typeof code === "number" ? amqpError(String(code), reply) : amqpError(unreachable, textOf(error))
}

/** An error before the connection is open: amqplib has sentences for it, and no codes. */
const openingError = (error: unknown): AmqpError => {
  const text = textOf(error)
  if (/ACCESS[-_]REFUSED/.test(text)) return amqpError(loginRefused)
  if (/SASL mechanism/.test(text)) return amqpError(noLogin)
  if (/Expected ConnectionOpenOk/.test(text)) return amqpError(vhostRefused)
  if (/Socket closed abruptly|ECONNRESET|EPIPE/.test(text)) return amqpError(hungUp)
  if (/^(Invalid frame|Frame |Expected |Server frameMax)/.test(text)) return amqpError(noBroker)
  return errorOf(error)
}

const loginOf = ({ url, password, tls }: SessionOptions) => {
  const { user, password: own } = url
  if (user !== undefined) return credentials.plain(user, password ?? own ?? "")
  return tls?.cert === undefined ? credentials.plain("guest", "guest") : credentials.external()
}

/** Closes the connection in order, within a second. Otherwise every stop is a warning in the broker's log. */
const leave = (model: ChannelModel): Promise<void> =>
  new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer)
      resolve()
    }
    const timer = setTimeout(over, 1_000)
    // The promise itself never settles if the connection breaks meanwhile.
    model.once("close", over)
    model.close().then(over, over)
  })

const [product, version] = userAgent.split("/")
/** The broker shows these properties. The library's default says that it runs on Node. */
const clientProperties = { connection_name: "relay", product, version, platform: undefined, information: undefined }

/** A connection, and a function that ends it immediately and drops all unwritten bytes. */
const connection = Effect.fnUntraced(function* (
  options: SessionOptions,
): Effect.fn.Return<readonly [ChannelModel, abort: () => void], AmqpError, Scope.Scope> {
  const { url, tls } = options
  // The only way to a socket that is still connecting.
  const aborting = yield* Effect.acquireRelease(
    Effect.sync(() => new AbortController()),
    (aborting) => Effect.sync(() => aborting.abort()),
  )
  const login = loginOf(options)
  const socket = {
    ...tls,
    signal: aborting.signal,
    noDelay: true,
    keepAlive: true,
    credentials: login,
    clientProperties,
  }
  const { host, port } = url.address
  const protocol = url.isTls ? "amqps" : "amqp"
  // amqplib decodes the virtual host, even if the options are an object.
  const place = { protocol, hostname: host, port, vhost: encodeURIComponent(url.vhost) }
  const model = yield* Effect.tryPromise({ try: () => connect(place, socket), catch: openingError }).pipe(
    Effect.catchIf(
      ({ code }) => code === vhostRefused,
      ({ code }) =>
        Effect.flatMap(vhostRefusal({ url, tls, mechanism: login.mechanism, response: login.response() }), (words) =>
          Effect.fail(amqpError(code, words)),
        ),
    ),
  )
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => (aborting.signal.aborted ? Effect.void : Effect.promise(() => leave(model)))),
  )
  return [model, () => aborting.abort()]
})

export const open = Effect.fnUntraced(
  function* (options: SessionOptions): Effect.fn.Return<Session, AmqpError, Scope.Scope> {
    const [model, abort] = yield* connection(options)
    let isOpen = true
    let alarm: string | undefined
    let failure: AmqpError | undefined
    /** Wakes the caller that waits for an alarm. */
    let onAlarm = () => {}
    // An error without a listener ends the process.
    const failed = (error?: Error) => {
      isOpen = false
      if (error !== undefined) failure ??= errorOf(error)
    }
    model.on("error", failed)
    model.on("close", failed)
    model.on("blocked", (reason) => {
      alarm = reason
      onAlarm()
    })
    model.on("unblocked", () => {
      alarm = undefined
    })
    const channel = yield* Effect.tryPromise({
      try: () => model.createConfirmChannel(),
      catch: (error) => failure ?? errorOf(error),
    })
    channel.on("error", failed)
    channel.on("close", () => failed())

    const end = () => {
      isOpen = false
      abort()
    }
    const ended = () => failure ?? amqpError(unreachable, "the broker closed the connection")

    return {
      isOpen: () => isOpen,
      blocked: () => alarm,
      publish: (destination, messages, timeout) =>
        Effect.callback((resume) => {
          const errors = new Map<number, AmqpError>()
          const waiting = new Set(messages.keys())
          const unroutable = new Map<string, number>()
          const noteReturned = ({ properties, fields }: Returned) => {
            const place = placeOf({ messageId: properties.messageId, routingKey: fields.routingKey })
            unroutable.set(place, (unroutable.get(place) ?? 0) + 1)
          }
          channel.on("return", noteReturned)
          const over = () => {
            channel.off("return", noteReturned)
            onAlarm = () => {}
            clearTimeout(timer)
            clearTimeout(alarmTimer)
          }
          const settle = (index: number, error?: AmqpError) => {
            if (!waiting.delete(index)) return
            if (error !== undefined) errors.set(index, error)
            if (waiting.size > 0) return
            over()
            resume(Effect.succeed(errors))
          }
          const giveUp = (error: () => AmqpError) => {
            for (const index of [...waiting]) settle(index, error())
          }
          const timer = setTimeout(() => {
            end()
            giveUp(() => amqpError(timedOut))
          }, timeout)
          let alarmTimer: ReturnType<typeof setTimeout> | undefined
          onAlarm = () => {
            alarmTimer = setTimeout(() => {
              if (alarm !== undefined) giveUp(() => amqpError(blocked, alarm))
            }, afterBlock)
          }
          messages.forEach((message, index) => {
            const confirmed = (error: unknown) => {
              if (error === null) return settle(index, takeReturned(unroutable, message))
              if (isOpen && /nack/.test(textOf(error))) return settle(index, amqpError(nacked))
              // The reason for the closed channel arrives a moment later.
              queueMicrotask(() => settle(index, ended()))
            }
            try {
              write(channel, destination, message, confirmed)
            } catch (error) {
              settle(index, isOpen ? amqpError(unwritable, textOf(error)) : ended())
            }
          })
          return Effect.sync(() => {
            over()
            end()
          })
        }),
      check: (exchange, routingKey) =>
        Effect.tryPromise({
          try: async () => {
            if (exchange === "" && routingKey !== undefined) await channel.checkQueue(routingKey)
            await refusedMessage(channel, exchange, routingKey ?? "")
          },
          catch: (error) => failure ?? errorOf(error),
        }).pipe(
          // The last message makes a working broker close the channel. Without a key this can't check the right to
          // write. A queue that another connection owns counts as existing.
          Effect.catchIf(
            (error) =>
              error.code === preconditionFailed ||
              error.code === resourceLocked ||
              (routingKey === undefined && isForKey(error)),
            () => Effect.void,
          ),
          Effect.andThen(
            Effect.suspend(() => (alarm === undefined ? Effect.void : Effect.fail(amqpError(blocked, alarm)))),
          ),
        ),
    } satisfies Session
  },
  (opening, { timeout }) =>
    Effect.timeoutOrElse(opening, { duration: timeout, orElse: () => Effect.fail(amqpError(timedOut)) }),
)

/** The part of a message that is returned if no queue is bound for it. */
const placeOf = ({ messageId, routingKey }: Pick<Message, "messageId" | "routingKey">): string =>
  `${messageId} ${routingKey}`

/** A message comes back before it is confirmed. */
const takeReturned = (unroutable: Map<string, number>, message: Message): AmqpError | undefined => {
  const place = placeOf(message)
  const count = unroutable.get(place) ?? 0
  if (count === 0) return undefined
  unroutable.set(place, count - 1)
  return amqpError(returned)
}

const write = (
  channel: ConfirmChannel,
  { exchange, mandatory }: Destination,
  { routingKey, messageId, type, contentType, timestamp, headers, body }: Message,
  confirmed: (error: unknown) => void,
): void => {
  const content = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const properties = { contentType, messageId, ...(type !== "" && { type }), timestamp, appId: "relay", headers }
  channel.publish(exchange, routingKey, content, { mandatory, persistent: true, ...properties }, confirmed)
}

/**
 * Publishes a message that no broker accepts. The broker first checks the exchange
 * and the right to write to it. Then it refuses the message, because its expiration
 * isn't a number. So nothing arrives.
 */
const refusedMessage = (channel: ConfirmChannel, exchange: string, routingKey: string): Promise<void> =>
  new Promise((resolve, reject) => {
    channel.publish(exchange, routingKey, Buffer.alloc(0), { expiration: "none", mandatory: true }, (error: unknown) =>
      error === null ? resolve() : queueMicrotask(() => reject(error)),
    )
  })
