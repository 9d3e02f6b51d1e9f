/** Rules for the waits of a stop. */
import { Duration, Option, Schema } from "effect"
import { stopDeadline } from "../Config.ts"
import { type Finding, warning } from "../diagnostics/Source.ts"
import type { Fields } from "../Fields.ts"
import { Drain } from "../schema/ConfigFile.ts"

/** The time that the files in `config/deploy` give a stop has room for these waits. */
const longestWaits = Duration.seconds(25)

/** A warning if a service manager would kill the relay before its stop has ended. */
export const drainRules = ({ drain }: Fields): ReadonlyArray<Finding> => {
  const waits = Option.getOrUndefined(Schema.decodeUnknownOption(Drain)(drain ?? {}))
  if (waits === undefined) return []
  const total = Duration.sum(waits.delay, waits.refuse)
  if (Duration.isLessThanOrEqualTo(total, longestWaits)) return []
  const needed = Math.ceil(Duration.toSeconds(stopDeadline(waits)))
  return [
    warning(
      ["drain"],
      `"delay" and "refuse" are ${Duration.format(total)} together, so a stop may take ${needed} seconds, and a service manager may kill the relay before`,
      `shorten them, or raise TimeoutStopSec (systemd), stop_grace_period (Compose) or terminationGracePeriodSeconds (Kubernetes) above ${needed} seconds`,
    ),
  ]
}
