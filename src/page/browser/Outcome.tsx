/** The state of an event at a sink, in words and a colour. */
import type { Event } from "../../admin/api/EventReport.ts"
import { Name, Pill, type Tone } from "./Shown.tsx"

type Delivery = Pick<Event["sinks"][number], "sink" | "outcome" | "collecting" | "attempts">

const tones: Readonly<Record<string, Tone>> = {
  delivered: "good",
  retrying: "warn",
  dead: "bad",
  unrouted: "warn",
  dropped: "bad",
  replayed: "warn",
  unrecorded: "warn",
}
const words: Readonly<Record<string, string>> = {
  dead: "dead letter",
  laneRemoved: "sink removed",
  unrecorded: "not recorded",
}

/** An event without a failed attempt is not retried: its digest collects, or it waits for its sink or for one before it. */
const stateOf = ({ outcome, collecting, attempts }: Delivery): string => {
  if (outcome !== "retrying" || attempts.length > 0) return outcome
  return collecting === true ? "collecting" : "waiting"
}

const StatePill = ({ of }: { readonly of: string }) => <Pill tone={tones[of] ?? "quiet"}>{words[of] ?? of}</Pill>

export const Outcome = ({ of, isNamed = false }: { readonly of: Delivery; readonly isNamed?: boolean }) => (
  <span class="outcome">
    {isNamed && <Name of={of.sink} />} <StatePill of={stateOf(of)} />
  </span>
)

/** The outcomes at all sinks that an event was routed to. */
export const Outcomes = ({ of }: { readonly of: ReadonlyArray<Delivery> }) => (
  <>
    {of.length === 0 && <StatePill of="unrouted" />}
    {of.map((one) => (
      <Outcome key={one.sink} of={one} isNamed />
    ))}
  </>
)
