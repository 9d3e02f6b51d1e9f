/** The relays on the journal, as a table. */
import type { Fleet } from "../../admin/FleetApi.ts"
import { span, table } from "./output.ts"

const streams = ({ streams, shared }: Fleet["relays"][number]): string => {
  const own = streams.length - (shared ? 1 : 0)
  return shared ? `${own} and the shared one` : String(own)
}

export const fleetTable = ({ relays }: Fleet): string =>
  table([
    ["RELAY", "VERSION", "CONFIG", "ADMIN", "STREAMS", "WAITING", "LAST SEEN"],
    ...relays.map((relay) => [
      `${relay.name}${relay.isSelf ? " (this one)" : ""}`,
      relay.version || "-",
      relay.configHash || "-",
      relay.address || "-",
      streams(relay),
      String(relay.waiting),
      `${span(relay.age)} ago`,
    ]),
  ])
