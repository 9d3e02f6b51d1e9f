/**
 * The policy of a lane as a table: how an event continues after an attempt, and whether the failure counts against the
 * event or the sink.
 */
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

/** How the event failed, in which attempts, under which suspicions, and the verdict. `any` means all of them. */
type Row = readonly [
  failure: ReadonlyArray<string>,
  of: ReadonlyArray<AttemptName> | "any",
  suspicion: ReadonlyArray<Suspicion> | "any",
  verdict: string,
]

const sinkDown = ["SinkUnavailable", "SinkThrottled", "SinkMisconfigured"]
const single: ReadonlyArray<AttemptName> = ["one event", "a digest of one event"]
const digests: ReadonlyArray<AttemptName> = ["a digest", "a digest of one event"]
const answeredOneByOne: ReadonlyArray<AttemptName> = ["one event", "a batch"]
const shared: ReadonlyArray<AttemptName> = ["a batch that failed as a whole"]

const policy: Readonly<Record<string, Row>> = {
  "an event without a failure is delivered": [["none"], "any", "any", "Delivered"],
  "a rejected event is a dead letter at once, unless the refusal is the target's": [
    ["DeliveryRejected"],
    "any",
    "any",
    "Rejected",
  ],
  "an event that failed is retried, and the circuit breaker counts it as well": [
    ["DeliveryFailed"],
    [...answeredOneByOne, ...digests],
    "any",
    "Retried against both",
  ],
  "in a batch that failed as a whole none is charged, and each goes by itself: one of them may be why": [
    ["DeliveryFailed"],
    shared,
    "any",
    "Returned against sink, isolated",
  ],
  "an attempt that the relay broke off costs nobody anything": [
    ["Interrupted"],
    "any",
    "any",
    "Returned against nobody",
  ],
  "a bug that one event meets costs that event an attempt": [["Defect"], single, "any", "Retried against relay"],
  "a bug that several events meet costs no attempt, and each goes by itself to show whose it is": [
    ["Defect"],
    ["a batch", "a batch that failed as a whole", "a digest"],
    "any",
    "Returned against nobody, isolated",
  ],
  "a sink that is down costs the event no attempt": [
    sinkDown,
    [...answeredOneByOne, ...digests],
    ["none"],
    "Returned against sink",
  ],
  "an event that alone says that the sink is down is charged, and goes by itself": [
    sinkDown,
    answeredOneByOne,
    ["atFault"],
    "Retried against event, isolated",
  ],
  "a digest that alone says so is charged, and stays one message": [
    sinkDown,
    digests,
    ["atFault"],
    "Retried against event",
  ],
  "an event that was at fault before is not charged while others fail as well, nor is the sink blamed for it": [
    sinkDown,
    [...answeredOneByOne, ...digests],
    ["wasAtFault"],
    "Returned against either",
  ],
  "a batch that failed as a whole is the sink's failure": [
    sinkDown,
    shared,
    ["none", "wasAtFault"],
    "Returned against sink",
  ],
  "in a batch that failed as a whole an event that may be why goes by itself": [
    sinkDown,
    shared,
    ["atFault"],
    "Returned against sink, isolated",
  ],
}

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
const applies = ([failures, attempts, suspicions]: Row, { failure, of, suspicion }: Case): boolean =>
  failures.includes(tagOf(failure)) &&
  (attempts === "any" || attempts.includes(of)) &&
  (suspicions === "any" || suspicions.includes(suspicion))
const titleOf = ({ failure, of, suspicion }: Case) => `${tagOf(failure)} of ${of}, suspicion ${suspicion}`

describe("the policy", () => {
  for (const [name, row] of Object.entries(policy)) {
    test(name, () => {
      const its = cases.filter((one) => applies(row, one))
      expect(its.length).toBeGreaterThan(0)
      const verdicts = its.map((one) => [titleOf(one), said(verdictOf(one.failure, attempts[one.of], one.suspicion))])
      expect(verdicts).toEqual(its.map((one) => [titleOf(one), row[3]]))
    })
  }

  test("has one row for each combination of failure, attempt and suspicion", () => {
    const wrong = cases.filter((one) => Object.values(policy).filter((row) => applies(row, one)).length !== 1)
    expect(wrong.map(titleOf)).toEqual([])
  })
})

test("a refusal by the target charges no event, and the circuit breaker counts it", () => {
  const ofTarget = new SinkMisconfigured({ message })
  for (const [name, attempt] of Object.entries(attempts)) {
    const refused = verdictOf(new DeliveryRejected({ message }), attempt, "none", ofTarget)
    expect([name, said(refused)]).toEqual([name, "Returned against sink"])
  }
  const bug = verdictOf({ _tag: "Defect", message }, attempts["one event"], "none", ofTarget)
  expect(said(bug)).toBe("Returned against sink")
})

test("the stored reasons that blame the sink are the reasons of a sink that is down", () => {
  expect([...reasons, "Defect", ""].filter(blamesSink).sort()).toEqual(sinkDown.toSorted())
})
