/** A listener changes its certificate while deliveries arrive. */
import { expect, test } from "bun:test"
import { Agent, request } from "node:https"
import { connect, type TLSSocket } from "node:tls"
import { Effect, Redacted } from "effect"
import type { Tls } from "../../src/config/Config.ts"
import * as Runtime from "../../src/runtime/Runtime.ts"
import { lacking, makeAuthority } from "../lib/authority.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const directory = temporaryDirectory("renewal-")

const host = "127.0.0.1"

/** The subject of the certificate that a new connection gets. */
const subjectAt = (port: number) =>
  new Promise<string>((resolve, reject) => {
    const socket: TLSSocket = connect({ host, port, rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN))
      socket.destroy()
    })
    socket.on("error", reject)
  })

/** The status of the answer, or the error's message. */
const post = (port: number, agent: Agent) =>
  new Promise<number | string>((resolve) => {
    const sending = request({ host, port, agent, method: "POST", rejectUnauthorized: false }, (answer) => {
      answer.resume().on("end", () => resolve(answer.statusCode ?? 0))
    })
    sending.on("error", ({ message }) => resolve(message))
    sending.end("a delivery")
  })

suiteUnless(lacking, "a listener's certificate", () => {
  const { issue } = makeAuthority(directory)
  const tlsOf = (name: string): Tls => {
    const { pem } = issue(name, `IP:${host}`)
    return { certificate: pem.cert, key: Redacted.make(pem.key) }
  }

  test("certificates are renewed under load: nothing is refused, half-sent bodies arrive, and new connections get the new one", () =>
    Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const [first, second, third] = [tlsOf("first"), tlsOf("second"), tlsOf("third")]
          const handler = async (got: Request) => new Response(await got.text())
          const { address, renew } = yield* Runtime.serve({ address: { host, port: 0 }, tls: first, handler })
          const { port } = address
          const subject = Effect.promise(() => subjectAt(port))
          const half = connect({ host, port, rejectUnauthorized: false })
          half.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf ")

          const answers = new Map<number | string, number>()
          let isOver = false
          const send = async (agent: () => Agent): Promise<void> => {
            while (!isOver) {
              const answer = await post(port, agent())
              answers.set(answer, (answers.get(answer) ?? 0) + 1)
            }
          }
          const kept = Array.from({ length: 4 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
          const senders = [
            ...kept.map((agent) => send(() => agent)),
            ...Array.from({ length: 4 }, () => send(() => new Agent({ keepAlive: false, maxCachedSessions: 0 }))),
          ]
          const seen = [yield* subject]
          for (const tls of [second, third, first, second, third]) {
            yield* renew(tls)
            seen.push(yield* subject, yield* subject)
          }
          half.write("sent!")
          const answered = yield* Effect.promise(
            () => new Promise((resolve) => half.once("data", (data) => resolve(String(data)))),
          )
          isOver = true
          yield* Effect.promise(() => Promise.all(senders))
          for (const agent of kept) agent.destroy()
          half.destroy()

          expect(seen).toEqual([
            "first",
            ...["second", "third", "first", "second", "third"].flatMap((name) => [name, name]),
          ])
          expect(answered).toStartWith("HTTP/1.1 200")
          expect([...answers.keys()]).toEqual([200])
        }),
      ),
    ))
})
