/** The sinks of AWS under each condition: moto behind the network, and the answers that people report. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { bodyOf } from "../faults/relay/Traffic.ts"
import { reasonToSkip, sharedMoto } from "../parts/Moto.ts"
import type { Received, Topic } from "../parts/Queues.ts"
import { type AwsName, AwsService, type Refusal, refused } from "./AwsService.ts"
import type { Cell, Column, Scenario } from "./Column.ts"
import { type Condition, type Place, play, type Service } from "./Play.ts"
import * as Wires from "./Wires.ts"

const { numberIn, sized, special } = Wires

/** The differences between the services. */
export interface AwsKind {
  readonly name: AwsName
  /** The keys of a sink to a target of this name, for a service at this URL. */
  readonly sink: (url: string, target: string) => object
  /** Makes a target in moto. */
  readonly make: (url: string, target: string) => Promise<Pick<Topic, "received">>
  /** The event in a message. */
  readonly bytesOf: (message: Received) => Uint8Array
  /** The largest message, in bytes. */
  readonly largest: number
  /** The codes of the service. */
  readonly codes: {
    readonly denied: string
    readonly throttled: string
    readonly unknownKey: string
    readonly expired: readonly [code: string, message: string]
  }
  /** The refusal of one entry for its content. */
  readonly content: Refusal
  /** The words about it, if they are not the usual ones. */
  readonly saysOfContent?: RegExp
  /** The refusal of one entry because of a failure inside the service. */
  readonly internal: Refusal
}

const credentials = { accessKeyId: "one", secretAccessKey: "a-secret" }

/** A port at which nothing listens. */
const closed = 1

let made = 0

/** A target in moto. */
export const inMoto = (kind: AwsKind) => async () => {
  const moto = await sharedMoto()
  const target = `condition-${kind.name}-${made++}`
  let { received } = await kind.make(moto.url, target)
  return {
    url: moto.url,
    target,
    again: async () => {
      received = (await kind.make(moto.url, target)).received
    },
    port: Number(new URL(moto.url).port),
    sink: (address: string, ca?: string) => ({
      ...kind.sink(`http${ca === undefined ? "" : "s"}://${address}`, target),
      credentials,
    }),
    arrived: async () => (await Effect.runPromise(received(0))).map((one) => numberIn(kind.bytesOf(one))),
  }
}

interface FakeTarget extends Wires.Target {
  readonly service: AwsService
}

/** moto takes seconds on a busy machine. */
export const patientAt: Wires.On = (what, more) =>
  Wires.on(reasonToSkip())(what, { delivery: { timeout: "5 seconds" }, ...more })

/** Events before the condition, which go in several requests at a time. */
const severalConnections = 60

/** A service that answers as a scenario says. */
const fake =
  (kind: AwsKind, keys: object = { credentials }) =>
  async (): Promise<FakeTarget> => {
    const service = new AwsService(kind.name)
    return {
      service,
      port: service.port,
      sink: (address) => ({ ...kind.sink(`http://${address}`, "events"), ...keys }),
      arrived: () => service.numbers,
      close: () => service.close(),
    }
  }

type More = Omit<Condition, "what" | "start">

/** A scenario in which the service answers otherwise while the condition holds. */
const answers = (kind: AwsKind, what: string, answer: AwsService["answer"], more: More): Scenario =>
  play({
    what,
    start: Wires.byProxy(
      fake(kind),
      ({ target: { service } }) => {
        service.answer = answer
      },
      ({ target: { service } }) => {
        service.answer = () => undefined
      },
    ),
    ...more,
  })

/** The endpoint of a container for credentials. */
const container =
  (kind: AwsKind): Condition["start"] =>
  async (): Promise<Service> => {
    const target = await fake(kind, {})()
    let key: string | undefined = "one"
    target.service.answer = ({ key: signed }) =>
      signed === key ? undefined : refused(kind.name, 403, ...kind.codes.expired)
    const endpoint = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () =>
        key === undefined
          ? Response.json(
              { code: "InternalServerException", message: "the agent can't reach its service" },
              { status: 500 },
            )
          : Response.json({
              AccessKeyId: key,
              SecretAccessKey: "a-secret",
              Token: "a-token",
              Expiration: new Date(Date.now() + 60_000).toISOString(),
            }),
    })
    return {
      sink: target.sink(`127.0.0.1:${target.port}`),
      env: { AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${endpoint.port}/credentials` },
      breaks: () => {
        key = undefined
      },
      heals: () => {
        key = "two"
      },
      arrived: target.arrived,
      close: () => Promise.all([target.service.close(), endpoint.stop(true)]),
    }
  }

/** A profile whose file gets another key. */
const profile =
  (kind: AwsKind): Condition["start"] =>
  async (place: Place): Promise<Service> => {
    const target = await fake(kind, { profile: "relay" })()
    const file = join(place.directory, "credentials")
    const write = (key: string) =>
      writeFileSync(file, `[relay]\naws_access_key_id = ${key}\naws_secret_access_key = a-secret\n`)
    let known = "one"
    target.service.answer = ({ key }) =>
      key === known
        ? undefined
        : refused(kind.name, 403, kind.codes.unknownKey, "The security token included in the request is invalid.")
    write("one")
    return {
      sink: target.sink(`127.0.0.1:${target.port}`),
      env: { AWS_SHARED_CREDENTIALS_FILE: file },
      breaks: () => {
        known = "two"
      },
      heals: () => write("two"),
      arrived: target.arrived,
      close: () => target.service.close(),
    }
  }

const hours = 3_600_000
/** The largest difference between the time of a signature and the time at AWS, in milliseconds. */
const tolerance = 300_000

/** The service refuses requests of a wrong time, and says its own. */
const clocks = (kind: AwsKind): ReadonlyArray<Scenario> =>
  [2, -2].map((skew) =>
    play({
      what: `the relay's clock is wrong by ${skew} hours; it signs by the clock of AWS after the first refusal`,
      skew: skew * hours,
      isThereAtStart: true,
      start: Wires.byProxy(fake(kind), ({ target: { service } }) => {
        service.answer = ({ signedAt }) => {
          const off = signedAt - Date.now()
          if (Math.abs(off) < tolerance) return undefined
          const words = off < 0 ? "Signature expired: it is earlier than the time" : "Signature not yet current"
          return refused(
            kind.name,
            403,
            kind.name === "eventbridge" ? "InvalidSignatureException" : "SignatureDoesNotMatch",
            words,
          )
        }
      }),
    }),
  )

/** Two services: the name leads to the second while the first lives on and fails. */
const movesOn = (kind: AwsKind): Scenario =>
  play({
    what: "the name gets another address, and what lives on at the old one answers 503",
    names: true,
    start: Wires.byName(
      fake(kind),
      ({ target: { service } }) => {
        service.answer = () => refused(kind.name, 503, "ServiceUnavailable", "Service is unable to handle request.")
      },
      ({ lead }) => lead(Wires.addresses.second),
      () => fake(kind)(),
    ),
    says: /waiting: .*can't take events now \(503, ServiceUnavailable\)/,
  })

const page = (status: number, headers = {}) =>
  new Response("<html><title>Sign in</title></html>", { status, headers: { "content-type": "text/html", ...headers } })

/** Conditions of the network. */
const network = (kind: AwsKind) => {
  const [on, quick] = [patientAt, Wires.on(reasonToSkip())]
  const moto = inMoto(kind)
  return {
    a: Wires.forgets(quick, fake(kind), severalConnections),
    b: [...Wires.moves(on, moto, /can't be reached/), movesOn(kind)],
    e: Wires.answersLate(quick, fake(kind), /no answer within 3s/, {
      copies: 30,
      because: "each attempt is stored, until the service answers in time",
    }),
    k: Wires.severalAddresses(on, moto),
  }
}

/** Conditions of credentials and clocks. */
const identity = (kind: AwsKind) => {
  return {
    c: [
      play({
        what: "the container's endpoint for credentials fails while the key expires, and then gives another key",
        start: container(kind),
        says: /waiting: .*the container's endpoint for credentials .* gives no credentials: .*500/,
      }),
      play({
        what: "the key of a profile is replaced, and then its file",
        start: profile(kind),
        says: /misconfigured: .*AWS does not know this access key/,
      }),
    ],
    i: clocks(kind),
  }
}

/** Answers that refuse or throttle. */
const refusals = (kind: AwsKind) => {
  const { denied, throttled } = kind.codes
  return {
    f: [
      play({
        what: "one entry of a batch fails inside the service; the others are sent once",
        start: Wires.byProxy(fake(kind), ({ target: { service } }) => {
          let times = 0
          service.refuses = (number) => (number === special && times++ < 2 ? kind.internal : undefined)
        }),
        bound: { copies: 0, because: "only the refused entry is sent again" },
        isQuick: true,
      }),
    ],
    g: [
      answers(
        kind,
        "a policy denies the action",
        () =>
          refused(
            kind.name,
            403,
            denied,
            "User: arn:aws:iam::123456789012:user/relay is not authorized to perform: sns:Publish",
          ),
        { says: /misconfigured: .*the credentials lack sns:Publish: grant it/ },
      ),
      answers(
        kind,
        "the key that encrypts the target is disabled",
        () => refused(kind.name, 400, kind.name === "sns" ? "KMSDisabled" : "KMS.DisabledException", "key is disabled"),
        { says: /misconfigured: .*the key that encrypts the \w+ is disabled: enable it/ },
      ),
      play({
        what: "one entry of a batch is refused for its content",
        start: Wires.byProxy(fake(kind), ({ target: { service } }) => {
          service.refuses = (number) => (number === special ? kind.content : undefined)
        }),
        letters: (number) => number === special,
        says: kind.saysOfContent ?? /refused the event/,
        isQuick: true,
      }),
    ],
    h: [
      answers(kind, "a proxy answers 200 with a sign-in page", () => page(200), {
        says: /misconfigured: .*\(200\) is not /,
      }),
      answers(kind, "a proxy answers 403 with a page of its own", () => page(403), {
        says: /misconfigured: .*\(403\) is not /,
      }),
    ],
    j: [
      answers(kind, "it throttles, and names no time", () => refused(kind.name, 400, throttled, "Rate exceeded"), {
        says: /waiting: .*asks to slow down/,
        bound: { wait: 1_000, because: "AWS names no time, so the sink waits for a second" },
      }),
      answers(
        kind,
        "it throttles by 503 and names 2 seconds",
        () => refused(kind.name, 503, "SlowDown", "Reduce your request rate.", { "retry-after": "2" }),
        { says: /waiting: .*asks to slow down/, bound: { wait: 2_000, because: "the service names 2 seconds" } },
      ),
    ],
  }
}

/** Conditions of the service as a whole. */
const service = (kind: AwsKind) => {
  const on = patientAt
  const moto = inMoto(kind)
  return {
    l: [
      answers(
        kind,
        "the service fails inside for a while, as AWS does while its nodes are replaced",
        () =>
          refused(
            kind.name,
            500,
            kind.name === "sns" ? "InternalError" : "InternalFailure",
            "We encountered an internal error.",
          ),
        { says: /waiting: .*can't take events now \(500, Internal/ },
      ),
      on("it closes all connections, and refuses new ones for a while", {
        start: Wires.byProxy(
          moto,
          ({ wire }) => {
            wire.pointTo(closed)
            wire.cut()
          },
          ({ wire, target }) => wire.pointTo(target.port),
        ),
        says: /waiting: .*can't be reached/,
      }),
    ],
    m: Wires.behindPublicFront(on, moto),
    n: [
      on("an event of the largest size, and one that is larger with its attributes", {
        start: async (place) => ({ ...(await Wires.byProxy(moto, () => {})(place)), config: Wires.largeBodies }),
        body: (number) => {
          if (number === special) return sized(number, kind.largest - 2_048)
          return number === special + 1 ? sized(number, kind.largest) : bodyOf(number)
        },
        letters: (number) => number === special + 1,
        says: /an event of \d+ bytes with all that goes along is larger than the \d+ that/,
      }),
    ],
  }
}

/** The cells that the services share. */
export const cellsOf = (kind: AwsKind): Column["cells"] => ({
  ...network(kind),
  ...identity(kind),
  ...refusals(kind),
  ...service(kind),
})

/** Row d. `remove` deletes the target in moto. */
export const away = (
  kind: AwsKind,
  remove: (url: string, target: string) => Promise<unknown>,
  says: RegExp,
  isSeenAtOnce = true,
): Cell => {
  const on = patientAt
  const removable = async () => {
    const target = await inMoto(kind)()
    const before: Array<number> = []
    return {
      ...target,
      arrived: async () => [...before, ...(await target.arrived())],
      remove: async () => {
        before.push(...(await target.arrived()))
        await remove(target.url, target.target)
      },
    }
  }
  const start = Wires.byProxy(
    removable,
    ({ target }) => target.remove(),
    // An event that comes before the target has its queue would be dropped.
    async ({ target, wire }) => {
      wire.pointTo(closed)
      wire.cut()
      await target.again()
      wire.pointTo(target.port)
    },
  )
  return [
    ...(isSeenAtOnce ? [on("the target is deleted, and made again", { start, says })] : []),
    on("the target never existed", { isThereAtStart: true, start, says }),
  ]
}
