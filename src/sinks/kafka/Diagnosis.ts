/**
 * Why a broker closes its connections without an answer. The libraries report no
 * more than that it did, and a listener that wants TLS, a login or a client
 * certificate has no other way to say so.
 *
 * **Guarantee.** It sends two requests without a credential, which a broker answers
 * to anybody who may connect. Where the cause isn't certain it names none.
 */
import { connect, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { Effect } from "effect"
import * as Address from "../../config/Address.ts"
import {
  below,
  type ClientOptions,
  certificateRefused,
  closed,
  type KafkaError,
  kafkaError,
  saslMissing,
  textOf,
  timedOut,
  tlsMissing,
  tlsUnwanted,
  unreachable,
  untrusted,
} from "./KafkaClient.ts"

/** How a conversation ended. */
type Ending = "answered" | "closed" | "closed after the greeting" | "alert of TLS" | KafkaError

const request = (apiKey: number, version: number, body: ReadonlyArray<number>): Buffer => {
  // Key, version and correlation id, and no client id.
  const bytes = [0, apiKey, 0, version, 0, 0, 0, 1, 0xff, 0xff, ...body]
  return Buffer.from([0, 0, 0, bytes.length, ...bytes])
}

/** ApiVersions, which is answered before a login. */
const greeting = request(18, 0, [])
/** Metadata of no topic, which is answered after a login only. */
const question = request(3, 1, [0, 0, 0, 0])

const alertOfTls = 0x15
/** An answer to the greeting has some 500 bytes: what names more isn't a broker. */
const longest = 65_536
const patience = "2 seconds"

/** Sends both requests, the second after the answer to the first. */
const converse = (open: (connected: () => void) => Socket): Effect.Effect<Ending> =>
  Effect.callback<Ending>((resume) => {
    let read: Buffer = Buffer.alloc(0)
    let isGreeted = false
    const socket = open(() => socket.write(greeting))
    const end = (ending: Ending): void => {
      socket.destroy()
      resume(Effect.succeed(ending))
    }
    socket.on("error", (error) => end(below(error, textOf(error, "code"))))
    socket.on("close", () => end(isGreeted ? "closed after the greeting" : "closed"))
    socket.on("data", (chunk: Buffer) => {
      if (isGreeted) return end("answered")
      read = Buffer.concat([read, chunk])
      if (read[0] === alertOfTls) return end("alert of TLS")
      if (read.length < 4) return
      const length = read.readInt32BE()
      if (length < 0 || length > longest) return end("closed")
      if (read.length < length + 4) return
      isGreeted = true
      socket.write(question)
    })
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed<Ending>("closed") }))

/** A certificate was shown, or the broker answered. */
const isOverTls = (ending: Ending): boolean =>
  typeof ending === "string"
    ? ending === "answered" || ending === "closed after the greeting"
    : ending.code === untrusted || ending.code === certificateRefused

const ofBroker = Effect.fnUntraced(function* (
  { host, port }: Address.Address,
  { tls, sasl }: ClientOptions,
): Effect.fn.Return<KafkaError | undefined> {
  const plainly = converse((connected) => connect({ host, port }, connected))
  const overTls = converse((connected) =>
    connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...tls }, connected),
  )
  const ending = yield* tls === undefined ? plainly : overTls
  if (ending === "alert of TLS") return kafkaError(tlsMissing)
  // One that was restarted meanwhile would answer both.
  if (ending === "closed after the greeting") return sasl === undefined ? kafkaError(saslMissing) : undefined
  if (ending === "answered") return undefined
  if (typeof ending !== "string" && ending.code !== closed) return ending.code === unreachable ? undefined : ending
  if (tls === undefined) return isOverTls(yield* overTls) ? kafkaError(tlsMissing) : undefined
  const other = yield* plainly
  return other === "answered" || other === "closed after the greeting" ? kafkaError(tlsUnwanted) : undefined
})

/** A call that ends within so many milliseconds. Where a broker closed its connection the error is the cause, if one is found. */
export const within = <A, R>(
  call: Effect.Effect<A, KafkaError, R>,
  millis: number,
  options: ClientOptions,
): Effect.Effect<A, KafkaError, R> =>
  Effect.timeoutOrElse(call, { duration: millis, orElse: () => Effect.fail(kafkaError(timedOut)) }).pipe(
    Effect.catchIf(
      ({ code }) => code === closed,
      (error) => of(error, options),
    ),
  )

/** The cause that the first broker with one shows; the error itself if none does. */
export const of = Effect.fnUntraced(function* (
  error: KafkaError,
  options: ClientOptions,
): Effect.fn.Return<never, KafkaError> {
  for (const address of options.brokers.map(Address.parse)) {
    const found = address && (yield* ofBroker(address, options))
    if (found !== undefined) return yield* Effect.fail(found)
  }
  return yield* Effect.fail(error)
})
