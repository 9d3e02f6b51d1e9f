/**
 * 300 deliveries a second to relays: through each proxy of `FrontProxies.ts`, which keeps its connections, from Node
 * with an agent that keeps connections, and from Node with a connection for each delivery. The rate falls while 200
 * wait for a response.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { bodyOf, path } from "../faults/relay/Traffic.ts"
import { envelope } from "../lib/kit.ts"
import { freePort } from "../lib/port.ts"
import { configOf, names, type ProxyName, proxies, reasonToSkip as reasonToSkipProxy } from "./FrontProxies.ts"
import { ServerProcess } from "./ServerProcess.ts"

/** A program and its arguments. */
type Words = readonly [program: string, ...args: ReadonlyArray<string>]

/**
 * The sender runs in Node, because the agent is Node's. It prints a line once all clients reach the relay, and its
 * figures at the end.
 */
const sender = `
import { createHmac } from "node:crypto"
import http from "node:http"
const { urls, secret, rate, most } = JSON.parse(process.argv[2])
const envelope = ${envelope}
const bodyOf = ${bodyOf}
const keeping = () => new http.Agent({ keepAlive: true })
const clients = Object.entries(urls).map(([name, url]) => ({ name, url, agent: name === "each" ? false : keeping() }))

const send = ({ url, agent }, method, body = "") =>
  new Promise((resolve) => {
    const signature = "sha256=" + createHmac("sha256", secret).update(body).digest("hex").toUpperCase()
    const headers = {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
      "x-service-signature": signature,
    }
    const request = http.request(url, { method, agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode))
    })
    request.on("error", ({ code, message }) => resolve(code ?? message))
    request.end(body)
  })
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time))

for (const client of clients) while ((await send(client, "GET")) !== 405) await sleep(20)
console.log("ready")

const counts = Object.fromEntries(clients.map(({ name }) => [name, {}]))
const accepted = []
let longest = 0
const deliver = async (number) => {
  const client = clients[number % clients.length]
  const began = performance.now()
  const status = await send(client, "POST", bodyOf(number))
  longest = Math.max(longest, performance.now() - began)
  const own = counts[client.name]
  own[status] = (own[status] ?? 0) + 1
  if (status === 202) accepted.push(number)
}
let isOver = false
process.stdin.resume().on("end", () => (isOver = true))
let last = performance.now()
const open = new Set()
for (let number = 0, due = 0; !isOver; await sleep(2)) {
  const now = performance.now()
  due = Math.min(due + ((now - last) / 1_000) * rate, rate / 10)
  last = now
  for (; due >= 1 && open.size < most; due--) {
    const one = deliver(number++).finally(() => open.delete(one))
    open.add(one)
  }
}
await Promise.all(open)
process.stdout.write(JSON.stringify({ counts, longest: Math.round(longest), accepted }), () => process.exit())
`

/** Where clients run. */
export interface Place {
  /** A directory for files of the clients. */
  readonly home: string
  /** Wraps a command so that it runs on a network with access to the relay. */
  readonly there?: (command: Words) => Words
}

export interface Options extends Place {
  /** The relay's addresses: host and port. */
  readonly deliveries: string
  readonly admin: string
  readonly secret: string
}

export interface Figures {
  /** The number of each status or error, by client. */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Milliseconds of the slowest response. */
  readonly longest: number
  /** The numbers of the accepted events, as `Traffic.ts` counts them. */
  readonly accepted: ReadonlyArray<number>
}

/** Why they can't be started, or `undefined` if they can. */
export const reasonToSkip = (): string | undefined => {
  const [reason] = names.flatMap((name) => reasonToSkipProxy(proxies[name]) ?? [])
  return reason ?? (Bun.which("node") === null ? "it needs node" : undefined)
}

/** Starts a proxy with the page's config, without TLS and at its own port. */
export const startProxy = async (
  name: ProxyName,
  config: string,
  { deliveries, admin, home, there = (words) => words }: Omit<Options, "secret">,
) => {
  const own = mkdtempSync(join(home, `${name}-`))
  const address = `127.0.0.1:${await freePort()}`
  const local = proxies[name]
    .plain(config, address)
    .replace("127.0.0.1:8080", deliveries)
    .replace("port 9080", `port ${admin.split(":")[1]}`)
  const file = join(own, "config")
  writeFileSync(file, proxies[name].complete(local, own))
  const env = { ...process.env, HOME: own, XDG_DATA_HOME: own, XDG_CONFIG_HOME: own }
  const proxy = new ServerProcess({ name, home: own, command: there(proxies[name].run(file)), env, isUp: () => true })
  await proxy.start()
  return { address, stop: proxy.stop }
}

/**
 * Delivers to the addresses of the clients in turn. The client `each` opens a connection for each delivery. Returns
 * once all of them reach the relay.
 */
export const startSender = async (
  addresses: Readonly<Record<string, string>>,
  secret: string,
  { home, there = (words) => words }: Place,
) => {
  const script = join(home, "sender.mjs")
  writeFileSync(script, sender)
  const urls = Object.fromEntries(
    Object.entries(addresses).map(([name, address]) => [name, `http://${address}${path}`]),
  )
  const [program, ...args] = there(["node", script, JSON.stringify({ urls, secret, rate: 300, most: 200 })])
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] })
  let said = ""
  child.stdout.on("data", (chunk) => {
    said += chunk
  })
  const closed = once(child, "close")
  await Promise.race([once(child.stdout, "data"), closed])
  return {
    /** Stops sending, and waits for the last response. */
    end: async (): Promise<Figures> => {
      child.stdin.end()
      await closed
      return JSON.parse(said.slice("ready\n".length))
    },
    stop: () => child.kill(),
  }
}

/** Starts the clients, and returns once each has reached the relay. */
export const start = async (options: Options) => {
  const addresses: Record<string, string> = { agent: options.deliveries, each: options.deliveries }
  const running: Array<{ readonly stop: () => Promise<void> }> = []
  for (const name of names) {
    const proxy = await startProxy(name, configOf(name), options)
    running.push(proxy)
    addresses[name] = proxy.address
  }
  const { end, stop } = await startSender(addresses, options.secret, options)
  return {
    end,
    /** Stops everything. */
    stop: async (): Promise<void> => {
      stop()
      for (const proxy of running) await proxy.stop()
    },
  }
}
