/**
 * Asks a broker why it does not open a virtual host. amqplib drops its words, so
 * this logs in again and reads them (AMQP 0-9-1, section 2.2.4).
 */
import { connect, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import { Effect } from "effect"
import type { Certificates } from "../../runtime/HttpTransport.ts"
import type { AmqpUrl } from "./AmqpUrl.ts"

export interface Login {
  readonly url: AmqpUrl
  readonly tls: Certificates | undefined
  readonly mechanism: string
  readonly response: Buffer
}

const patience = "3 seconds"
/** The greeting of a broker has some 500 bytes. */
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

const opened = ({ url, tls }: Login, connected: () => void): Socket => {
  const { host, port } = url.address
  return url.isTls
    ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...tls }, connected)
    : connect({ host, port }, connected)
}

/** Returns the broker's words, or an empty text if it opens the virtual host now or does not answer. */
export const words = (login: Login): Effect.Effect<string> =>
  Effect.callback<string>((resume) => {
    let read: Buffer = Buffer.alloc(0)
    const socket = opened(login, () => socket.write(header))
    const end = (said: string): void => {
      socket.destroy()
      resume(Effect.succeed(said))
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
