/** An SMTP server in this process. It keeps each mail as received, and as postal-mime parses it. */
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import { Effect } from "effect"
import PostalMime, { type Email } from "postal-mime"
import { SMTPServer, type SMTPServerOptions } from "smtp-server"
import { listening } from "../receiver.ts"

export interface Taken {
  readonly mail: Email
  readonly raw: string
  readonly from: string
  readonly to: ReadonlyArray<string>
  readonly secure: boolean
  readonly user: unknown
}

export interface Smtp {
  readonly server: string
  readonly port: number
  readonly taken: Array<Taken>
  /** Connections since the start, and open ones. */
  readonly connections: () => { readonly ever: number; readonly now: number }
  readonly close: () => Promise<void>
}

/** An error with the code of its reply. */
export const reply = (responseCode: number, text: string): Error => Object.assign(new Error(text), { responseCode })

/** A server that greets with these words, accepts any command, and records the data received. */
export const greeting = Effect.fnUntraced(function* (...words: ReadonlyArray<string>) {
  const sent: Array<string> = []
  const server = createServer((socket) => {
    socket.write("220 here\r\n")
    socket.on("data", (chunk) => {
      sent.push(chunk.toString())
      const lines = ["here", ...words].map((word, index) => `250${index === words.length ? " " : "-"}${word}\r\n`)
      socket.write(/^EHLO/.test(chunk.toString()) ? lines.join("") : "535 5.7.8 no\r\n")
    })
  })
  const { port } = yield* listening(server)
  return { server: `127.0.0.1:${port}`, sent }
})

/** Listens on loopback, by default without TLS and without a login. `options` are smtp-server's. */
export const startSmtp = async (options: SMTPServerOptions = {}, port = 0): Promise<Smtp> => {
  const taken: Array<Taken> = []
  let ever = 0
  const smtp = new SMTPServer({
    disableReverseLookup: true,
    authOptional: true,
    disabledCommands: options.key === undefined ? ["STARTTLS"] : [],
    closeTimeout: 10,
    onData: (stream, session, done) => {
      const chunks: Array<Buffer> = []
      stream.on("data", (chunk) => chunks.push(chunk))
      stream.on("end", async () => {
        if (stream.sizeExceeded) return done(reply(552, "5.3.4 too large"))
        const raw = Buffer.concat(chunks)
        const { envelope, secure, user } = session
        taken.push({
          mail: await PostalMime.parse(raw),
          raw: raw.toString("latin1"),
          from: envelope.mailFrom === false ? "" : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address),
          secure,
          user,
        })
        done()
      })
    },
    ...options,
  })
  smtp.on("error", () => {})
  smtp.on("connect", () => {
    ever += 1
  })
  const listening = smtp.listen(port, "127.0.0.1")
  await once(listening, "listening")
  const at = (listening.address() as AddressInfo).port
  return {
    server: `127.0.0.1:${at}`,
    port: at,
    taken,
    connections: () => ({ ever, now: smtp.connections.size }),
    close: () => new Promise((resolve) => smtp.close(resolve)),
  }
}
