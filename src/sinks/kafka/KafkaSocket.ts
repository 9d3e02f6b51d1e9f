/**
 * A socket to a broker, watched for its whole life: both clients leave gaps in
 * which an error has no listener and would end the process.
 *
 * **Guarantee.** No error of it goes unheard, and what a client throws over bytes
 * that it can't read costs the connection: under Deno nothing else could. An answer whose length no broker
 * gives is not collected: it costs the connection, not the relay's memory.
 */
import type { Socket } from "node:net"

/** The largest answer, in bytes. Metadata of 100,000 partitions takes some 10 MiB. */
const largestAnswer = 64 * 1024 * 1024

/** The bytes that arrived are no answer of a broker. */
export class NotKafka extends Error {}

/** The client has its own listener for as long as it cares. */
export const ignore = (): void => {}

/** Call it before the client adds listeners of its own: it must see a chunk first. */
export const watch = (socket: Socket): void => {
  socket.on("error", ignore)
  endingOnThrow(socket)
  /** The bytes of a length that have come. */
  const head: Array<number> = []
  /** Bytes of the answer that are yet to come. */
  let left = 0
  socket.on("data", (chunk: Buffer) => {
    for (let at = 0; at < chunk.length; ) {
      if (left > 0) {
        const taken = Math.min(left, chunk.length - at)
        left -= taken
        at += taken
        continue
      }
      head.push(chunk[at++] ?? 0)
      if (head.length < 4) continue
      left = Buffer.from(head.splice(0)).readInt32BE()
      // A TLS alert at a plain port is no length either: both clients tell it by its first bytes.
      if (left < 4 || (left > largestAnswer && !isTls(left))) {
        socket.destroy(new NotKafka(`it does not speak Kafka's protocol: it announced an answer of ${left} bytes`))
        return
      }
    }
  })
}

/** An error that a listener throws over arriving bytes ends the socket. */
const endingOnThrow = (socket: Socket): void => {
  const on = socket.on.bind(socket)
  const guarded = (event: string, listener: (...args: ReadonlyArray<unknown>) => void): Socket =>
    on(
      event,
      event !== "data"
        ? listener
        : (...args) => {
            try {
              listener.apply(socket, args)
            } catch (error) {
              socket.destroy(error instanceof Error ? error : new Error(String(error)))
            }
          },
    )
  Object.assign(socket, { on: guarded })
}

/** A record of TLS has its type and version where Kafka has the length. */
const isTls = (length: number): boolean => {
  const [type, major] = [length >>> 24, (length >>> 16) & 0xff]
  return type >= 0x14 && type <= 0x17 && major === 3
}
