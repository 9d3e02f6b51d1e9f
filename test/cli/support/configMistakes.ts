/** A config with many routes and sinks, mistakes in changes of it, and events that show each of them. */
import type { Event } from "../../../src/event/Event.ts"
import { eventTypes } from "../../../src/event/EventType.ts"
import { sample } from "../../../src/event/SampleEvent.ts"

type Random = () => number

/** The parts of a config file that mistakes change. */
export interface Config {
  readonly webhooks: Record<string, Record<string, unknown>>
  readonly sinks: Record<string, Record<string, unknown>>
  readonly routes: Array<Record<string, unknown> & { name: string; match: Array<string>; to: Array<string> }>
}

/** A base config, in a file's form. Nothing listens on its ports, and nothing is sent. */
export const baseOf = (journal: object): Config & Readonly<Record<string, unknown>> => ({
  listen: "127.0.0.1:1",
  admin: { listen: "127.0.0.1:2" },
  journal,
  webhooks: {
    scheduling: { path: "/scheduling", secrets: [{ name: "main", value: "a-secret-of-this-test" }] },
    partners: {
      path: "/partners",
      secrets: [{ name: "main", value: "a-secret-of-this-test" }],
      unknownTypes: "route",
    },
  },
  sinks: {
    audit: { type: "file", path: "audit.ndjson" },
    lake: {
      type: "kafka",
      brokers: ["127.0.0.1:9"],
      topic: "events.{{resource}}",
      key: "{{account_id}}",
      order: "key",
      headers: { "x-client": "{{/data/object/client_id}}" },
    },
    crm: {
      type: "http",
      url: "http://127.0.0.1:9/crm",
      format: "template",
      body: {
        kind: "{{type}}",
        at: "{{created_at}}",
        subject: { id: "{{/data/object/id}}", amount: "{{/data/object/amount}}" },
      },
      headers: { "x-account": "{{account_id}}" },
      order: "key",
      key: "{{/data/object/id}}",
    },
    oncall: {
      type: "pagerduty",
      routingKey: "0123456789abcdef0123456789abcdef",
      resolve: true,
      details: { meeting: "{{/data/object/meeting/id}}" },
    },
    chat: { type: "slack", url: "http://127.0.0.1:9/chat", summary: "{{type}} of {{account_id}}" },
  },
  routes: [
    { name: "everything", match: ["**"], to: ["audit"] },
    { name: "lake", match: ["appointment.**", "client.*", "booking_intent.*"], to: ["lake"] },
    {
      name: "appointments",
      match: ["appointment.*"],
      except: ["appointment.deleted"],
      webhook: "scheduling",
      to: ["crm"],
    },
    {
      name: "large",
      match: ["booking_intent.completed"],
      where: { "/data/object/amount": [500, 900] },
      to: ["crm", "chat"],
    },
    {
      name: "video",
      match: ["appointment.meeting.*"],
      where: { jmespath: "data.object.meeting.kind == 'video'" },
      to: ["chat"],
    },
    { name: "failures", match: ["appointment.meeting.*_failed", "connected_account.refresh_failed"], to: ["oncall"] },
  ],
})

const pick = <A>(random: Random, from: ReadonlyArray<A>): A => from[Math.floor(random() * from.length)] as A

const route = ({ routes }: Config, name: string): Config["routes"][number] => {
  const found = routes.find((one) => one.name === name)
  if (found === undefined) throw new Error(`no route ${name}`)
  return found
}

/** A mistake changes a copy of the config. It returns its name and the sinks that must be in the difference. */
type Mistake = (config: Config, random: Random) => readonly [name: string, ...sinks: ReadonlyArray<string>]

const sinkOf = ({ sinks }: Config, name: string): Record<string, unknown> => sinks[name] ?? {}

/** Replaces a letter within a word by another, so that the word differs. */
const mistyped = (word: string, random: Random): string => {
  const at = 1 + Math.floor(random() * (word.length - 2))
  return `${word.slice(0, at)}${word[at] === "q" ? "z" : "q"}${word.slice(at + 1)}`
}

const mistakes: ReadonlyArray<Mistake> = [
  (config, random) => {
    const one = pick(random, config.routes.slice(1))
    one.match[0] = (one.match[0] ?? "").replace(/^\w+/, (word) => mistyped(word, random))
    return [`pattern of ${one.name} is mistyped`, ...one.to]
  },
  (config, random) => {
    const name = pick(random, ["lake", "appointments"])
    const one = route(config, name)
    one.match[0] = (one.match[0] ?? "").endsWith("**") ? "appointment.*" : "appointment.**"
    return [`pattern of ${name} has another wildcard`, ...one.to]
  },
  (config, random) => {
    const one = pick(random, config.routes)
    config.routes.splice(config.routes.indexOf(one), 1)
    return [`route ${one.name} is lost`, ...one.to]
  },
  (config, random) => {
    const name = pick(random, Object.keys(config.sinks))
    const renamed = `${name}-new`
    config.sinks[renamed] = sinkOf(config, name)
    delete config.sinks[name]
    for (const one of config.routes) one.to = one.to.map((sink) => (sink === name ? renamed : sink))
    return [`sink ${name} is renamed without its former name`, name, renamed]
  },
  (config, random) => {
    const one = pick(random, config.routes)
    const [was = ""] = one.to
    const other = pick(
      random,
      Object.keys(config.sinks).filter((sink) => sink !== "audit" && !one.to.includes(sink)),
    )
    one.to = [other, ...one.to.slice(1)]
    return [`route ${one.name} leads to ${other} instead of ${was}`, other]
  },
  (config, random) => {
    const where = pick<Record<string, unknown>>(random, [
      { "/data/object/amount": ["500", "900"] },
      { "/data/object/amuont": [500, 900] },
      { "/data/object/amount": { not: [500, 900] } },
      { "/data/object/amount": [500] },
      { "/object/amount": [500, 900] },
    ])
    route(config, "large").where = where
    return ["a wrong where", "crm", "chat"]
  },
  (config, random) => {
    const jmespath = pick(random, [
      "data.object.meeting.kind == 'Video'",
      "data.object.meeting.king == 'video'",
      "data.object.meeting.kind != 'video'",
      "object.meeting.kind == 'video'",
    ])
    route(config, "video").where = { jmespath }
    return [`a wrong expression ${jmespath}`, "chat"]
  },
  (config) => {
    route(config, "video").where = { jmespath: "starts_with(data.object.amount, 'v')" }
    return ["an expression that can't be evaluated", "_quarantine"]
  },
  (config, random) => {
    const pointer = pick(random, ["/data/object/client", "/data/client_id", "/object/client_id"])
    sinkOf(config, "lake").headers = { "x-client": `{{${pointer}}}` }
    return [`header's placeholder is ${pointer}`, "lake"]
  },
  (config, random) => {
    const [kind, id] = pick(random, [
      ["{{id}}", "{{/data/object/id}}"],
      ["{{type}}", "{{/data/id}}"],
      ["{{resource}}", "{{/data/object/id}}"],
      ["{{type}}", "{{id}}"],
    ] as const)
    sinkOf(config, "crm").body = { kind, at: "{{created_at}}", subject: { id, amount: "{{/data/object/amount}}" } }
    return [`body has ${kind} ${id}`, "crm"]
  },
  (config, random) => {
    const summary = pick(random, ["{{type}} of {{account_id}", "{{type}} of", "{{type}} of {{/data/account_id}}"])
    sinkOf(config, "chat").summary =
      summary.includes("}}") && !summary.endsWith("d}") ? summary : "{{type}} of account_id"
    return [`summary ${summary}`, "chat"]
  },
  (config, random) => {
    const key = pick(random, ["{{id}}", "{{type}}", "{{/data/object/id}}", "{{/account}}"])
    sinkOf(config, "lake").key = key
    return [`key of lake is ${key}`, "lake"]
  },
  (config, random) => {
    if (random() < 0.5) delete sinkOf(config, "crm").order
    else sinkOf(config, "crm").key = "{{account_id}}"
    return ["crm loses the order of its objects", "crm"]
  },
  (config, random) => {
    const topic = pick(random, ["events.{{type}}", "event.{{resource}}", "events.resource"])
    sinkOf(config, "lake").topic = topic
    return [`topic is ${topic}`, "lake"]
  },
  (config, random) => {
    const name = pick(random, ["crm", "chat"])
    sinkOf(config, name).url = `http://127.0.0.1:9/${name}/v2`
    return [`address of ${name} differs`, name]
  },
  (config, random) => {
    const except = pick(random, ["appointment.created", "appointment.*ed", "appointment.**"])
    route(config, "appointments").except = [except]
    return [`except is ${except}`, "crm"]
  },
  (config) => {
    delete route(config, "appointments").except
    return ["except is lost", "crm"]
  },
  (config) => {
    route(config, "appointments").webhook = "partners"
    return ["webhook of a route is another", "crm"]
  },
  (config, random) => {
    const unknownTypes = pick(random, ["reject", "quarantine"])
    const { partners = {} } = config.webhooks
    partners.unknownTypes = unknownTypes
    return [`unknown types: ${unknownTypes}`, "audit", unknownTypes === "reject" ? "_refused" : "_quarantine"]
  },
  (config) => {
    const { partners = {} } = config.webhooks
    delete config.webhooks.partners
    config.webhooks.partner = partners
    return ["webhook is renamed", "audit", "_refused"]
  },
  (config) => {
    const { scheduling = {} } = config.webhooks
    scheduling.maxBody = "300 bytes"
    return ["maxBody is too small", "audit", "_refused"]
  },
  (config) => {
    delete sinkOf(config, "oncall").resolve
    return ["recoveries are lost", "oncall"]
  },
  (config, random) => {
    const name = pick(random, ["crm", "oncall"])
    config.sinks[name] = { type: "file", path: `${name}.ndjson` }
    return [`${name} is another type of sink`, name]
  },
  (config) => {
    config.sinks.audit = { type: "file", path: "audits.ndjson" }
    return ["file is another", "audit"]
  },
  (config) => {
    const one = route(config, "failures")
    one.match = ["**"]
    return ["every event is an alert", "oncall"]
  },
]

/** Makes a mistake: `index` chooses its kind. The same seed makes the same one. */
export const mistakeOf = (base: Config, index: number, random: Random) => {
  const config: Config = structuredClone(base)
  const [name, ...sinks] = (mistakes[index % mistakes.length] as Mistake)(config, random)
  return { name, sinks, config }
}

const utf8 = new TextEncoder()

/** An event of a random type, account, webhook and shape. Some types are not in the catalogue. */
export const eventOf = (index: number, receivedAt: number, random: Random): Event => {
  const webhook = random() < 0.2 ? "partners" : "scheduling"
  const isOdd = webhook === "partners" && random() < 0.1
  const type = isOdd ? "invoice.paid" : pick(random, eventTypes)
  const { data, ...envelope } = sample(type, receivedAt, {
    accountId: `acct_${Math.floor(random() * 20)}`,
    isFixed: true,
  })
  const more = {
    id: `obj_${Math.floor(random() * 1_000)}`,
    amount: pick(random, [100, 500, 900]),
    client_id: `cli_${Math.floor(random() * 500)}`,
    ...(type.includes(".meeting.") && { meeting: { id: `mtg_${index}`, kind: pick(random, ["video", "phone"]) } }),
    ...(random() < 0.5 && { notes: "n".repeat(Math.floor(random() * 400)) }),
  }
  const id = `evt_${index}`
  return {
    id,
    type,
    accountId: envelope.account_id,
    webhook,
    webhookId: "",
    signature: "",
    secret: "main",
    receivedAt,
    body: utf8.encode(JSON.stringify({ ...envelope, id, data: { type, object: { ...data.object, ...more } } })),
  }
}
