/** The HTTP sink with and without TLS, under both runtimes. Each runtime reports the same fault in its own words. */
import { afterAll, beforeAll, expect, test } from "bun:test"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { createServer as createTcpServer } from "node:net"
import { fileURLToPath } from "node:url"
import { Effect, Exit, Scope } from "effect"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import { suiteUnless } from "../../lib/lacking.ts"
import { denoBinary } from "../../lib/programs.ts"
import { temporaryDirectory } from "../../lib/temporaryRoot.ts"
import { listening, type Received, serve, serveTls } from "../receiver.ts"

/** Part of every URL. A runtime's error message may contain it, and the sink must not mistake it for the cause. */
const path = "/expired-CERT_-unreachable-ECONNREFUSED"

const directory = temporaryDirectory("tls-")
const scope = Scope.makeUnsafe()
const root = fileURLToPath(new URL("../../..", import.meta.url))
const delivered: Array<Received> = []

const run = <A>(effect: Effect.Effect<A, never, Scope.Scope>): Promise<A> =>
  Effect.runPromise(Scope.provide(effect, scope))

/** The reasons that a runtime reports for the same configs. */
const reasons = async (command: ReadonlyArray<string>, configs: unknown): Promise<Record<string, string>> => {
  const [file = "", ...args] = command
  const child = spawn(file, [...args, `${root}/test/sinks/reaching.ts`], {
    cwd: root,
    stdio: ["pipe", "pipe", "inherit"],
  })
  let output = ""
  child.stdout.on("data", (chunk: Uint8Array) => {
    output += Buffer.from(chunk).toString()
  })
  child.stdin.end(JSON.stringify(configs))
  await once(child, "close")
  return JSON.parse(output)
}

const runtimes = [
  ["Bun", [process.execPath]],
  ["Deno", [denoBinary(), "run", "--quiet", "--allow-all"]],
] as const

suiteUnless(lacking, "a receiver over TLS", () => {
  let configs: Record<string, unknown> = {}
  let expected: Record<string, unknown> = {}

  beforeAll(async () => {
    const { ca, issue } = makeAuthority(directory)
    const here = "DNS:localhost,IP:127.0.0.1"
    const [good, other, expired, client] = [
      issue("good", here),
      issue("other", "DNS:other.example"),
      issue("expired", here, -1),
      issue("client", "DNS:client"),
    ]
    const keep = (request: Received, response: { end: (text: string) => void }) => {
      delivered.push(request)
      response.end("ok")
    }
    const plain = await run(serve(keep))
    const sound = await run(serveTls(good.pem, keep))
    const named = await run(serveTls(other.pem, keep))
    const stale = await run(serveTls(expired.pem, keep))
    const demanding = { ...good.pem, ca: [readFileSync(ca, "utf8")], requestCert: true, rejectUnauthorized: true }
    const mutual = await run(serveTls(demanding, keep))
    const older = await run(serveTls({ ...demanding, maxVersion: "TLSv1.2" }, keep))
    const reset = await run(listening(createTcpServer((socket) => socket.once("data", () => socket.resetAndDestroy()))))
    const stranger = await run(
      listening(createTcpServer((socket) => socket.once("data", () => socket.end("SSH-2.0-OpenSSH\r\n\r\n")))),
    )
    const half = await run(
      listening(
        createTcpServer((socket) => socket.once("data", () => socket.write("HTTP/1.1 20", () => socket.end()))),
      ),
    )
    const elsewhere = await run(
      serve((_, response) => response.writeHead(307, { location: "file:///etc/passwd" }).end()),
    )
    const unfit = issue("unfit", here, 2, "extendedKeyUsage=clientAuth")
    const wrongWay = await run(serveTls(unfit.pem, keep))
    const closed = await Effect.runPromise(Effect.scoped(listening(createTcpServer())))
    const garbled = `${ca}.garbled`
    writeFileSync(garbled, "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    const own = { ca, certificate: client.certificate, key: client.key }
    configs = {
      "no TLS": { url: `${plain.url}${path}` },
      "an authority that is not trusted": { url: `${sound.url}${path}` },
      "an authority of our own": { url: `${sound.url}${path}`, tls: { ca } },
      "a certificate for another name": { url: `${named.url}${path}`, tls: { ca } },
      "an expired certificate": { url: `${stale.url}${path}`, tls: { ca } },
      "a certificate that was not made for a server": { url: `${wrongWay.url}${path}`, tls: { ca } },
      "no certificate where TLS 1.2 wants one": { url: `${older.url}${path}`, tls: { ca } },
      "a certificate of our own by TLS 1.2": { url: `${older.url}${path}`, tls: own },
      "no certificate where one is wanted": { url: `${mutual.url}${path}`, tls: { ca } },
      "a certificate of our own": { url: `${mutual.url}${path}`, tls: own },
      "a key as PEM text": { url: `${mutual.url}${path}`, tls: { ...own, key: client.pem.key } },
      "a key of another certificate": { url: `${mutual.url}${path}`, tls: { ...own, key: good.key } },
      "a garbled authority": { url: `${sound.url}${path}`, tls: { ca: garbled } },
      "an authority that is not there": { url: `${sound.url}${path}`, tls: { ca: "/no/such/ca.pem" } },
      "TLS where none is spoken": { url: `${plain.url.replace("http:", "https:")}${path}`, tls: { ca } },
      "a reset": { url: `${reset.url}${path}` },
      "an answer that breaks off in its first line": { url: `${half.url}${path}` },
      "something else than HTTP": { url: `${stranger.url}${path}` },
      "a redirect to a file": { url: `${elsewhere.url}${path}` },
      "nothing there": { url: `${closed.url}${path}` },
      "a name that is nowhere": { url: `http://no-such-host.invalid${path}` },
    }
    const says = (tag: string, text: string) => expect.stringMatching(new RegExp(`^${tag}: .*${text}`))
    expected = {
      "no TLS": "delivered",
      "an authority that is not trusted": says("SinkMisconfigured", 'no authority that is trusted.*"tls"'),
      "an authority of our own": "delivered",
      "a certificate for another name": says("SinkMisconfigured", "another host name"),
      "an expired certificate": says("SinkMisconfigured", "has expired"),
      "a certificate that was not made for a server": says("SinkMisconfigured", "not made for a server"),
      "no certificate where TLS 1.2 wants one": says("SinkMisconfigured", 'client certificate in "tls"'),
      "a certificate of our own by TLS 1.2": "delivered",
      "no certificate where one is wanted": says("SinkMisconfigured", 'client certificate in "tls"'),
      "a certificate of our own": "delivered",
      "a key as PEM text": "delivered",
      "a key of another certificate": says("SinkMisconfigured", '"tls.key": this is not the key of "certificate"'),
      "a garbled authority": says("SinkMisconfigured", '"tls.ca": the certificate is damaged'),
      "an authority that is not there": says("SinkMisconfigured", "can't be read: /no/such/ca.pem"),
      "TLS where none is spoken": says("SinkMisconfigured", "no TLS with it"),
      "a reset": says("SinkUnavailable", "closed before an answer came"),
      "an answer that breaks off in its first line": says("SinkUnavailable", "closed before an answer came"),
      "something else than HTTP": says("SinkMisconfigured", "does not speak HTTP"),
      "a redirect to a file": says("SinkMisconfigured", "redirects are not followed"),
      "nothing there": says("SinkUnavailable", "nothing listens there"),
      "a name that is nowhere": says("SinkUnavailable", "has no address"),
    }
  })

  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

  for (const [name, command] of runtimes) {
    test(`is reached, or reported with its problem, under ${name}`, async () => {
      delivered.length = 0
      expect(await reasons(command, configs)).toEqual(expected as Record<string, string>)
      expect(delivered).toHaveLength(5)
      expect(new Set(delivered.map(({ body }) => Buffer.from(body).toString())).size).toBe(1)
    })
  }
})
