/** Checks the clock: its date, whether it jumps, and whether a time server synchronizes it. */
import { Clock, Duration, Effect } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import type { EpochMillis, Millis } from "../../../event/Quantities.ts"
import * as WallClock from "../../../journal/WallClock.ts"
import { type Finding, finder } from "./Finding.ts"

const watched = Duration.millis(500)
/** By how much the wall clock may deviate from the monotonic one while it is watched. */
const tolerance: Millis = 250
/** A clock that shows less is wrong: this program is newer. */
const earliest = Date.UTC(2026, 0, 1)

/** Asks systemd about the kernel's clock; `undefined` without systemd. */
const synchronized = Effect.flatMap(ChildProcessSpawner.ChildProcessSpawner, (spawner) =>
  spawner.string(ChildProcess.make("timedatectl", ["show", "--property=NTPSynchronized", "--value"])),
).pipe(
  Effect.map((answer) => ({ yes: true, no: false })[answer.trim()]),
  Effect.timeout("2 seconds"),
  Effect.orElseSucceed(() => undefined),
)

export const clock = Effect.gen(function* () {
  const { drift } = WallClock.make(yield* Clock.Clock)
  yield* Effect.sleep(watched)
  return time({ now: yield* Clock.currentTimeMillis, drift: drift(), synchronized: yield* synchronized })
})

interface Time {
  readonly now: EpochMillis
  /** By how much the wall clock ran ahead while it was watched. */
  readonly drift: Millis
  readonly synchronized: boolean | undefined
}

export const time = ({ now, drift, synchronized }: Time): Finding => {
  const at = finder("clock", "time")
  const shown = new Date(now).toISOString()
  if (now < earliest) {
    return at("wrong", `the clock shows ${shown}: set it, because ages, expiry and certificates depend on it`)
  }
  if (Math.abs(drift) > tolerance) {
    return at(
      "warning",
      `the clock was moved by ${drift.toFixed(0)} ms within ${Duration.format(watched)}: it is being set, or a time service corrects it`,
    )
  }
  if (synchronized === false) {
    return at("warning", `${shown}, not synchronized by a time server: \`timedatectl set-ntp true\` enables that`)
  }
  return at(
    "ok",
    synchronized === undefined
      ? `${shown}; whether a time server synchronizes it can't be read here (no answer from timedatectl)`
      : `${shown}, synchronized by a time server`,
  )
}
