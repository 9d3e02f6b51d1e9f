/**
 * The sender's API fails in every way it can. Three sinks request client details from it, each with another setting for
 * failures, and two sinks don't request them.
 *
 * Every client's details contain a canary, and so do the API's errors. A canary may appear only in payloads to the
 * requesting sinks, and only in events of its own client.
 */
import type { ServerResponse } from "node:http"
import { Effect } from "effect"
import { relay as command } from "../../lib/relay.ts"
import { own, services } from "../../sinks/alerts/services.ts"
import { type Handler, type Received, serve } from "../../sinks/receiver.ts"
import type { Line, Options, Outcome } from "../Line.ts"
import { memory, Subject } from "../relay/Subject.ts"
import { numberOf, Receiver } from "../relay/Traffic.ts"
import { p99 } from "../sinks/Trial.ts"
import { Search } from "./Search.ts"

const rate = 60
/** How long each trouble lasts, in seconds. */
const seconds = { long: 15, normal: 1 }
/** Largest growth of a relay in MiB, whatever the API answers. Unread data stays in sockets for a moment. */
const growth = 128

const canary = "canary"
/** The credential that the API expects: the relay's own secret. */
const token = "Bearer only-the-api-knows"
/** Contained in every event. A search that does not find it searches nothing. */
const marker = "an-event-as-it-was-signed"

const bodyOf = (number: number): string =>
  JSON.stringify({
    id: `evt_${number}`,
    account_id: "acct_1",
    version: "1",
    created_at: "2026-11-21T00:00:00Z",
    data: {
      type: "client.updated",
      object: { id: `cl_${number}`, first_name: null, last_name: null, email: null, phone: null, marker },
    },
  })

const emailOf = (client: string | number): string => `${canary}-${client}@example.test`
const record = (id: string, client = id) => ({
  id,
  first_name: `${canary} ${client}`,
  last_name: canary,
  email: emailOf(client),
  phone: null,
})

type Trouble = (id: string, request: Received, response: ServerResponse) => void

const json =
  (status: number, body: (id: string, request: Received) => unknown): Trouble =>
  (id, request, response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body(id, request)))

const fine = json(200, (id) => record(id))

/** `elsewhere` is the target of the redirect. */
const troubles = (elsewhere: string): ReadonlyArray<Trouble> => [
  // It never answers.
  () => {},
  (_, __, response) => response.destroy(),
  json(200, (id) => record(`${id}0`)),
  json(200, () => ({ error: canary })),
  json(200, () => [canary]),
  (_, __, response) => void response.writeHead(200).write(canary.repeat(200_000)),
  (id, _, response) => response.writeHead(302, { location: `${elsewhere}/${canary}/${id}` }).end(canary),
  json(500, (id, { headers }) => ({ ...record(id), headers })),
  json(401, (_, { headers }) => ({ canary, headers })),
]

/** A sink with a template. It repeats the payload in its answer, and stores it unless it refuses it. */
const echo = (payloads: Array<string>, isRefused: (payload: string) => boolean): Handler => {
  return (request, response) => {
    const payload = Buffer.from(request.body).toString("utf8")
    const refused = isRefused(payload)
    if (!refused) payloads.push(payload)
    response.writeHead(refused ? 422 : 200).end(payload)
  }
}

interface Servers {
  readonly api: string
  readonly waits: string
  readonly buries: string
  readonly delivers: string
  readonly silent: string
}

class Scene {
  /** Accepted payloads, by sink. */
  readonly payloads = {
    waits: [] as string[],
    buries: [] as string[],
    delivers: [] as string[],
    silent: [] as string[],
  }
  readonly broken = new Set<string>()
  /** The API's current behaviour. */
  trouble: Trouble = fine
  asked = 0
  followed = 0
  elsewhere = ""

  #service(name: "slack" | "pagerduty", payloads: Array<string>): Handler {
    const { problems, accept, refuse } = services[name]
    return (request, response) => {
      const found = problems(request.body)
      if (found.length > 0) {
        this.broken.add(`${name} got something invalid: ${found.join(", ")}`)
        return refuse(response, found)
      }
      payloads.push(Buffer.from(request.body).toString("utf8"))
      accept(response)
    }
  }

  readonly open = Effect.gen({ self: this }, function* () {
    const { waits, buries, delivers, silent } = this.payloads
    const elsewhere = yield* serve((_, response) => {
      this.followed += 1
      response.end()
    })
    this.elsewhere = elsewhere.url
    const servers = {
      api: serve((request, response) => {
        this.asked += 1
        if (request.headers.authorization !== token) this.broken.add("the API was not told who asks")
        this.trouble(decodeURIComponent(request.url.split("/").at(-1) ?? ""), request, response)
      }),
      // One event in twenty is rejected, in an answer that repeats the payload.
      waits: serve(echo(waits, (payload) => numberOf(JSON.parse(payload).id) % 20 === 7)),
      buries: serve(echo(buries, () => false)),
      delivers: serve(this.#service("slack", delivers)),
      silent: serve(this.#service("pagerduty", silent)),
    }
    return yield* Effect.map(
      Effect.all(servers),
      (all): Servers => ({
        api: all.api.url,
        waits: all.waits.url,
        buries: all.buries.url,
        delivers: all.delivers.url,
        silent: all.silent.url,
      }),
    )
  })
}

const template = { id: "{{id}}", email: "{{/client/email}}", name: "{{/client/first_name}}" }
const details = { Client: "{{/client/first_name}} {{/client/email}}" }

const run = async (scene: Scene, servers: Servers, options: Options): Promise<Outcome> => {
  const good = new Receiver()
  good.bodyOf = bodyOf
  const http = { type: "http", format: "template", body: template }
  const subject = await Subject.make(options, {
    sinks: {
      good: { type: "http", url: good.url },
      silent: { ...own.pagerduty, type: "pagerduty", url: servers.silent, details },
      waits: { ...http, url: servers.waits, enrich: "wait" },
      buries: { ...http, url: servers.buries, enrich: "deadLetter" },
      delivers: { ...own.slack, type: "slack", url: servers.delivers, details, enrich: "deliver" },
    },
  })
  const { sender } = subject
  sender.bodyOf = bodyOf
  const env = { API_TOKEN: token }
  const config = subject.write("clients.json", {
    clients: { baseUrl: servers.api, headers: { authorization: `\${API_TOKEN}` }, timeout: "300 millis" },
  })
  const search = new Search([canary, token])
  const lags: Array<number> = []
  good.onArrival = ({ number, at }) => lags.push(at - (sender.sentAt.get(number) ?? at))
  const relay = await subject.start({ env }, config)
  await sender.paced(rate, 1)
  await subject.drained(10)
  lags.length = 0
  const before = memory(relay.pid)
  let peak = before
  const watching = setInterval(() => {
    peak = Math.max(peak, memory(relay.pid))
  }, 100)

  for (const trouble of troubles(scene.elsewhere)) {
    scene.trouble = trouble
    await sender.paced(rate, options.long ? seconds.long : seconds.normal)
    await subject.ask("/api/v1/lanes/buries/resume", "POST")
  }
  const meanwhile: Array<string> = []
  if (!(await subject.drained(10, ["good", "silent"])))
    meanwhile.push("sinks that do not ask did not get all meanwhile")
  clearInterval(watching)
  const lag = p99(lags)
  search.files(subject.directory)
  const waiting = await subject.status()
  search.text("status while it fails", JSON.stringify(waiting))

  scene.trouble = fine
  await subject.ask("/api/v1/lanes/buries/resume", "POST")
  if (!(await subject.drained(30))) meanwhile.push("what was kept did not drain within half a minute")

  const asked = { cwd: subject.directory, env, ...(options.binary === undefined ? {} : { binary: options.binary }) }
  const say = async (...args: ReadonlyArray<string>) => {
    const { stdout, stderr } = await command([...args, "-c", config], asked)
    search.text(`relay ${args.join(" ")}`, stdout + stderr)
    return stdout
  }
  for (const path of ["/metrics", "/api/v1/status"]) search.text(path, await subject.ask(path))
  const letters = new Map<string, ReadonlySet<string>>()
  for (const lane of ["waits", "buries", "delivers", "silent", "good"]) {
    const list = JSON.parse(await subject.ask(`/api/v1/dead-letters?limit=1000&sink=${lane}`)) as ReadonlyArray<{
      readonly id: number
      readonly eventId: string
    }>
    letters.set(lane, new Set(list.map(({ eventId }) => eventId)))
    search.text(`dead letters of ${lane}`, JSON.stringify(list))
    for (const { id } of list.slice(0, 20))
      search.text(`dead letter ${id}`, await subject.ask(`/api/v1/dead-letters/${id}`))
  }
  await say("status")
  await say("dlq", "list")
  for (const sink of ["waits", "delivers", "silent"]) await say("explain", "client.updated", "--payload", sink)
  search.text("payloads of a sink that does not ask", scene.payloads.silent.join("\n"))
  await relay.kill()
  search.text("what it printed", relay.stdout() + relay.stderr())
  search.files(subject.directory)
  await good.goAway()

  const broken = [...scene.broken, ...meanwhile, ...search.found]
  if (!search.files(subject.directory, marker)) broken.push("the search does not even find the events")
  if (scene.followed > 0) broken.push(`${scene.followed} redirects of the API were followed`)
  if (good.altered > 0) broken.push(`${good.altered} deliveries to a sink that does not ask were altered`)
  if (peak - before > growth) broken.push(`it grew by ${(peak - before).toFixed(0)} MiB`)
  const refused = [...sender.refused].map(([status, times]) => `${times} times ${status}`)
  if (refused.length > 0) broken.push(`senders were answered ${refused.join(", ")}`)

  const { lost, wrong, blank } = account(scene.payloads, letters, sender.acknowledged)
  const goneGood = good.missing(sender.acknowledged).length
  if (wrong > 0) broken.push(`${wrong} payloads hold another client's details`)
  if (blank.waits > 0) broken.push(`${blank.waits} were sent without details where a sink waits for them`)
  if (blank.buries > 0) broken.push(`${blank.buries} were sent without details where they should be dead letters`)
  if (blank.delivers === 0 || (letters.get("buries")?.size ?? 0) === 0) broken.push("the API was never missed")
  if (lost + goneGood + broken.length === 0) subject.remove()
  return {
    rounds: troubles("").length,
    acknowledged: sender.acknowledged.size,
    lost: lost + goneGood,
    duplicates: 0,
    broken,
    notes: [
      `a sink that does not ask: p99 ${lag.toFixed(0)} ms; memory +${(peak - before).toFixed(0)} MiB; ` +
        `the API was asked ${scene.asked} times; ${blank.delivers} alerts without details`,
    ],
  }
}

/** Counts events that are lost, events with another client's details, and events without details. */
const account = (
  payloads: Scene["payloads"],
  letters: ReadonlyMap<string, ReadonlySet<string>>,
  acknowledged: ReadonlySet<number>,
) => {
  const blank = { waits: 0, buries: 0, delivers: 0, silent: 0 }
  let [lost, wrong] = [0, 0]
  for (const name of ["waits", "buries", "delivers", "silent"] as const) {
    const arrived = new Set<number>()
    for (const payload of payloads[name]) {
      const number = Number(/evt_(\d+)/.exec(payload)?.[1])
      arrived.add(number)
      const emails = payload.match(/canary-cl_\d+@/g) ?? []
      if (emails.some((email) => email !== `${canary}-cl_${number}@`)) wrong += 1
      if (emails.length === 0) blank[name] += 1
    }
    for (const number of acknowledged) {
      if (!arrived.has(number) && letters.get(name)?.has(`evt_${number}`) !== true) lost += 1
    }
  }
  return { lost, wrong, blank }
}

export const clients: Line = {
  name: "clients",
  fault: "the API of client details fails, lies and leaks",
  run: (options) =>
    Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const scene = new Scene()
          const servers = yield* scene.open
          return yield* Effect.promise(() => run(scene, servers, options))
        }),
      ),
    ),
}
