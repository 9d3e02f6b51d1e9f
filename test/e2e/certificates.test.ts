/**
 * Certificates are renewed while `run --watch` runs, as certbot and Kubernetes do it: a symbolic link is replaced.
 * RELAY_UNDER selects the runtime, or the binary.
 */
import { expect, test } from "bun:test"
import { once } from "node:events"
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:https"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { connect, createServer, type TLSSocket } from "node:tls"
import { lacking, makeAuthority } from "../lib/authority.ts"
import { envelope, sign, writeConfig } from "../lib/kit.ts"
import { suiteUnless } from "../lib/lacking.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("renewed-")

const host = "127.0.0.1"

suiteUnless(lacking, "certificates of a running relay", () => {
  const { ca, issue } = makeAuthority(cwd)
  const authority = readFileSync(ca, "utf8")

  /** Writes a certificate into a new directory, and points the link to it. */
  const renew = (link: string, subject: string): void => {
    const { pem } = issue(subject, `IP:${host}`)
    mkdirSync(join(cwd, `${subject}.d`))
    writeFileSync(join(cwd, `${subject}.d`, "fullchain.pem"), pem.cert)
    writeFileSync(join(cwd, `${subject}.d`, "privkey.pem"), pem.key)
    symlinkSync(`${subject}.d`, join(cwd, "..data"))
    renameSync(join(cwd, "..data"), join(cwd, link))
  }
  const named = (link: string) => ({ certificate: `${link}/fullchain.pem`, key: `${link}/privkey.pem` })

  /** The subject of the certificate that a new connection gets. */
  const subjectAt = (port: number) =>
    new Promise<string>((resolve, reject) => {
      const socket: TLSSocket = connect({ host, port, ca: authority }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN))
        socket.destroy()
      })
      socket.on("error", reject)
    })

  let deliveries = 0
  const deliver = (port: number, agent: Agent) =>
    new Promise<number | string>((resolve) => {
      const body = envelope(`evt_${deliveries++}`)
      const headers = { "content-type": "application/json", "x-service-signature": sign(body) }
      const sending = request({ host, port, path: "/hooks", method: "POST", agent, ca: authority, headers }, (answer) =>
        answer.resume().on("end", () => resolve(answer.statusCode ?? 0)),
      )
      sending.on("error", ({ message }) => resolve(message))
      sending.end(body)
    })

  test("certificates of the listener and a sink are renewed under load, no delivery is refused, and a bad one is not used", async () => {
    renew("live", "first")
    renew("client", "client-1")
    const clients = new Set<string>()
    const own = issue("receiver", `IP:${host}`).pem
    const wanted = { ...own, ca: authority, requestCert: true, rejectUnauthorized: true }
    const receiver = createServer(wanted, (socket) => {
      clients.add(String(socket.getPeerCertificate().subject.CN))
      // Each connection serves one request, so the relay shows its certificate for each request.
      socket.once("data", () => socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"))
      socket.on("error", () => {})
    }).listen(0, host)
    await once(receiver, "listening")
    const url = `https://${host}:${(receiver.address() as AddressInfo).port}/`
    const lake = { type: "http", url, tls: { ca, ...named("client") } }
    const { config, ports } = await writeConfig(cwd, { lake }, { tls: named("live") }, "config.json")
    const [port] = ports
    const running = await startRelay(config, { cwd, args: ["--log-format", "text", "--watch"] })
    const answers = new Map<number | string, number>()
    let isOver = false
    const send = async (agent: () => Agent): Promise<void> => {
      while (!isOver) {
        const answer = await deliver(port, agent())
        answers.set(answer, (answers.get(answer) ?? 0) + 1)
      }
    }
    const kept = Array.from({ length: 3 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
    const senders = [
      ...kept.map((agent) => send(() => agent)),
      ...Array.from({ length: 3 }, () => send(() => new Agent({ keepAlive: false, maxCachedSessions: 0 }))),
    ]
    try {
      expect(await subjectAt(port)).toBe("first")
      renew("live", "second")
      renew("client", "client-2")
      while ((await subjectAt(port)) !== "second" || !clients.has("client-2")) await Bun.sleep(20)
      await running.prints(/reloaded: ~ listener tls: certificate, key; ~ sink lake: tls.certificate, tls.key/)

      writeFileSync(join(cwd, "second.d/privkey.pem"), readFileSync(join(cwd, "first.d/privkey.pem")))
      const refused = await relay(["reload", "-c", "config.json"], { cwd })
      expect([refused.code, refused.stderr]).toEqual([78, expect.stringContaining("at tls.key")])
      expect(await subjectAt(port)).toBe("second")

      const { stdout } = await relay(["status", "-c", "config.json"], { cwd })
      expect(stdout).toMatch(/tls\.certificate +second +in 4[78] h/)
      expect(stdout).toMatch(/sinks\.lake\.tls\.certificate +client-2 +in 4[78] h/)
      isOver = true
      await Promise.all(senders)
      expect([...answers.keys()]).toEqual([202])
      expect(await running.kill()).toBe(0)
    } finally {
      isOver = true
      await running.kill("SIGKILL")
      for (const agent of kept) agent.destroy()
      receiver.close()
    }
  })
})
