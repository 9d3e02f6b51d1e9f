/** The policy of a lane as a table: what becomes of an event after an attempt, and whom the failure counts against. */
import { describe, expect, test } from "bun:test"
import type { Failure } from "../../../src/delivery/lane/InFlight.ts"
import {
  blamesSink,
  type Circumstances,
  type Suspicion,
  type Verdict,
  verdictOf,
} from "../../../src/delivery/lane/Verdict.ts"
import {
  DeliveryFailed,
  DeliveryRejected,
  reasons,
  SinkMisconfigured,
  SinkThrottled,
  SinkUnavailable,
} from "../../../src/sinks/Sink.ts"

const message = "why"
const failures: ReadonlyArray<Failure | undefined> = [
  undefined,
  new DeliveryRejected({ message }),
  new DeliveryFailed({ message }),
  new SinkUnavailable({ message }),
  new SinkThrottled({ message, retryAfter: 1_000 }),
  new SinkMisconfigured({ message }),
  { _tag: "Defect", message },
  { _tag: "Interrupted", message },
]
const tagOf = (failure: Failure | undefined) => failure?._tag ?? "none"

const attempts = {
  "one event": { isDigest: false, isAlone: true, failedTogether: false },
  "a batch": { isDigest: false, isAlone: false, failedTogether: false },
  "a batch that failed as a whole": { isDigest: false, isAlone: false, failedTogether: true },
  "a digest": { isDigest: true, isAlone: false, failedTogether: false },
  "a digest of one event": { isDigest: true, isAlone: true, failedTogether: false },
} as const satisfies Record<string, Circumstances>
type AttemptName = keyof typeof attempts

const suspicions: ReadonlyArray<Suspicion> = ["none", "atFault", "wasAtFault"]

/** A row: how the event failed, in which attempts, under which suspicions, and the verdict. `any` stands for all. */
interface Row {
  readonly name: string
  readonly failure: ReadonlyArray<string>
  readonly of: ReadonlyArray<AttemptName> | "any"
  readonly suspicion: ReadonlyArray<Suspicion> | "any"
  readonly verdict: string
}

const sinkDown = ["SinkUnavailable", "SinkThrottled", "SinkMisconfigured"]
const single: ReadonlyArray<AttemptName> = ["one event", "a digest of one event"]
const digests: ReadonlyArray<AttemptName> = ["a digest", "a digest of one event"]
const answeredOneByOne: ReadonlyArray<AttemptName> = ["one event", "a batch"]
const shared: ReadonlyArray<AttemptName> = ["a batch that failed as a whole"]

const policy: ReadonlyArray<Row> = [
  {
    name: "an event without a failure is delivered",
    failure: ["none"],
    of: "any",
    suspicion: "any",
    verdict: "Delivered",
  },
  {
    name: "a rejected event is a dead letter at once, unless the refusal is the target's",
    failure: ["DeliveryRejected"],
    of: "any",
    suspicion: "any",
    verdict: "Rejected",
  },
  {
    name: "an event that failed is retried, and the circuit breaker counts it as well",
    failure: ["DeliveryFailed"],
    of: [...answeredOneByOne, ...digests],
    suspicion: "any",
    verdict: "Retried against both",
  },
  {
    name: "in a batch that failed as a whole none is charged, and each goes by itself: one of them may be why",
    failure: ["DeliveryFailed"],
    of: shared,
    suspicion: "any",
    verdict: "Returned against sink, isolated",
  },
  {
    name: "an attempt that the relay broke off costs nobody anything",
    failure: ["Interrupted"],
    of: "any",
    suspicion: "any",
    verdict: "Returned against nobody",
  },
  {
    name: "a bug that one event meets costs that event an attempt",
    failure: ["Defect"],
    of: single,
    suspicion: "any",
    verdict: "Retried against relay",
  },
  {
    name: "a bug that several events meet costs no attempt, and each goes by itself to show whose it is",
    failure: ["Defect"],
    of: ["a batch", "a batch that failed as a whole", "a digest"],
    suspicion: "any",
    verdict: "Returned against nobody, isolated",
  },
  {
    name: "a sink that is down costs the event no attempt",
    failure: sinkDown,
    of: [...answeredOneByOne, ...digests],
    suspicion: ["none"],
    verdict: "Returned against sink",
  },
  {
    name: "an event that alone says that the sink is down is charged, and goes by itself",
    failure: sinkDown,
    of: answeredOneByOne,
    suspicion: ["atFault"],
    verdict: "Retried against event, isolated",
  },
  {
    name: "a digest that alone says so is charged, and stays one message",
    failure: sinkDown,
    of: digests,
    suspicion: ["atFault"],
    verdict: "Retried against event",
  },
  {
    name: "an event that was at fault before is not charged while others fail as well, nor is the sink blamed for it",
    failure: sinkDown,
    of: [...answeredOneByOne, ...digests],
    suspicion: ["wasAtFault"],
    verdict: "Returned against either",
  },
  {
    name: "a batch that failed as a whole is the sink's failure",
    failure: sinkDown,
    of: shared,
    suspicion: ["none", "wasAtFault"],
    verdict: "Returned against sink",
  },
  {
    name: "in a batch that failed as a whole an event that may be why goes by itself",
    failure: sinkDown,
    of: shared,
    suspicion: ["atFault"],
    verdict: "Returned against sink, isolated",
  },
]

const said = (verdict: Verdict): string => {
  const against = "against" in verdict ? ` against ${verdict.against}` : ""
  return `${verdict._tag}${against}${"isolated" in verdict && verdict.isolated ? ", isolated" : ""}`
}

const cases = failures.flatMap((failure) =>
  (Object.keys(attempts) as Array<AttemptName>).flatMap((of) =>
    suspicions.map((suspicion) => ({ failure, of, suspicion })),
  ),
)
type Case = (typeof cases)[number]
const applies = (row: Row, { failure, of, suspicion }: Case): boolean =>
  row.failure.includes(tagOf(failure)) &&
  (row.of === "any" || row.of.includes(of)) &&
  (row.suspicion === "any" || row.suspicion.includes(suspicion))
const titleOf = ({ failure, of, suspicion }: Case) => `${tagOf(failure)} of ${of}, suspicion ${suspicion}`

describe("the policy", () => {
  for (const row of policy) {
    test(row.name, () => {
      const its = cases.filter((one) => applies(row, one))
      expect(its.length).toBeGreaterThan(0)
      const verdicts = its.map((one) => [titleOf(one), said(verdictOf(one.failure, attempts[one.of], one.suspicion))])
      expect(verdicts).toEqual(its.map((one) => [titleOf(one), row.verdict]))
    })
  }

  test("has one row for each combination of failure, attempt and suspicion", () => {
    const wrong = cases.filter((one) => policy.filter((row) => applies(row, one)).length !== 1)
    expect(wrong.map(titleOf)).toEqual([])
  })
})

test("a refusal of the target costs the event nothing, and the circuit breaker counts it", () => {
  const ofTarget = new SinkMisconfigured({ message })
  for (const [name, attempt] of Object.entries(attempts)) {
    const refused = verdictOf(new DeliveryRejected({ message }), attempt, "none", ofTarget)
    expect([name, said(refused)]).toEqual([name, "Returned against sink"])
  }
  const bug = verdictOf({ _tag: "Defect", message }, attempts["one event"], "none", ofTarget)
  expect(said(bug)).toBe("Returned against sink")
})

test("the stored reasons that blame the sink are those of a sink that is down", () => {
  expect([...reasons, "Defect", ""].filter(blamesSink).sort()).toEqual(sinkDown.toSorted())
})
