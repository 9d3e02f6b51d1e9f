/** All series at `/metrics` of a relay that has counted each thing once. */
import { Duration, Effect } from "effect"
import { quarantine } from "../../src/event/Event.ts"
import { add, observeCommit, ofWebhook } from "../../src/ingest/Counters.ts"
import { lane, type Setup, start, text } from "../admin/fixture.ts"
import { webhook } from "../ingest/fixture.ts"

export interface Exported {
  readonly name: string
  readonly labels: ReadonlyArray<readonly [label: string, value: string]>
  readonly value: number
}

const counted: NonNullable<Setup["counted"]> = (counters) => {
  const webhook = ofWebhook(counters, "scheduling")
  add(webhook.answers, 202)
  add(webhook.signatureFailures, "expired")
  add(webhook.events, "client.created")
  add(webhook.unredacted, "email")
  webhook.secretsLastUsed.set("main", 1)
  observeCommit(counters.commits, 1)
}

const certificates = [{ key: "tls.certificate", subject: "a", notBefore: 0, notAfter: 1, fingerprint: "AA" }]
const lanes = [lane("lake", { attempts: { delivered: 1 } }), lane(quarantine)]

const webhooks = [webhook({ silentAfter: { duration: Duration.hours(2) } })]

/** The text as Prometheus gets it. */
export const metrics: string = await Effect.runPromise(
  Effect.gen(function* () {
    const { ask } = yield* start({ config: { certificates, webhooks }, counted, lanes })
    return yield* text(yield* ask("/metrics"))
  }).pipe(Effect.scoped),
)

export const exported: ReadonlyArray<Exported> = metrics
  .trimEnd()
  .split("\n")
  .filter((line) => !line.startsWith("#"))
  .map((line) => {
    const [, name = "", labels = "", value = ""] = /^([a-z_]+)(?:\{(.*)\})? (.*)$/.exec(line) ?? []
    const pairs = [...labels.matchAll(/([a-z]+)="((?:[^"\\]|\\.)*)"/g)]
    return { name, labels: pairs.map(([, label = "", text = ""]) => [label, text] as const), value: Number(value) }
  })
