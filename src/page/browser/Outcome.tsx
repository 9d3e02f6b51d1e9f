/** The state of an event at a sink, in words and a colour. */
import { Pill, Text, type Tone } from "./Shown.tsx"

const tones: Readonly<Record<string, Tone>> = {
  delivered: "good",
  pending: "quiet",
  retrying: "warn",
  dead: "bad",
  unrouted: "warn",
  dropped: "bad",
  replayed: "warn",
  moved: "quiet",
  laneRemoved: "quiet",
  unrecorded: "warn",
}
const words: Readonly<Record<string, string>> = {
  dead: "dead letter",
  laneRemoved: "sink removed",
  unrecorded: "not recorded",
}

export const Outcome = ({ of, at = "" }: { readonly of: string; readonly at?: string }) => (
  <span class="outcome">
    {at !== "" && <Text of={at} max={60} />} <Pill tone={tones[of] ?? "quiet"}>{words[of] ?? of}</Pill>
  </span>
)
