/**
 * Notifies the service manager (sd_notify(3)): `READY=1`, `WATCHDOG=1`,
 * `STOPPING=1`, `STATUS=…`, and around a reload `RELOADING=1` and `READY=1`.
 *
 * **Guarantee.** Without NOTIFY_SOCKET, or without a libc, nothing is sent and
 * nothing fails.
 */
import process from "node:process"
import { Context, Duration, Effect } from "effect"
import type { Libc } from "./Platform.ts"
import { libc } from "./Runtime.ts"

/** The service manager, as far as it listens. */
export interface Notify {
  /** Sends lines such as `READY=1`. */
  readonly say: (...lines: ReadonlyArray<string>) => Effect.Effect<void>
  /** A reload begins; `READY=1` says that it has ended. */
  readonly reloading: Effect.Effect<void>
  readonly isHeard: boolean
  /** How often the manager expects `WATCHDOG=1`, or it kills the process. Absent where it has no watchdog. */
  readonly watchdog?: Duration.Duration
}

const silent: Notify = { say: () => Effect.void, reloading: Effect.void, isHeard: false }

/** Silent unless a service manager started `relay run`. */
export const Notify = Context.Reference<Notify>("relay/runtime/Notify", { defaultValue: () => silent })

const unix = 1
const datagram = 2
const closeOnExec = 0o2000000
const noSignal = 0x4000
const longestPath = 107

/** A `sockaddr_un`. A name that begins with `@` is abstract: its first byte is zero. */
const address = (path: string): Uint8Array | undefined => {
  const name = Buffer.from(path.startsWith("@") ? `\0${path.slice(1)}` : `${path}\0`)
  if (!/^[@/]/.test(path) || name.length > longestPath) return undefined
  const family = Buffer.alloc(2)
  new Uint16Array(family.buffer, family.byteOffset, 1)[0] = unix
  return Buffer.concat([family, name])
}

const send = ({ socket, sendto, close }: Libc, to: Uint8Array, text: string): void => {
  const bytes = Buffer.from(text)
  const descriptor = socket(unix, datagram | closeOnExec, 0)
  if (descriptor < 0) return
  sendto(descriptor, bytes, bytes.length, noSignal, to, to.length)
  close(descriptor)
}

const monotonic = 1

/** Microseconds of CLOCK_MONOTONIC, the manager's clock. The runtimes' own clock begins with the process. */
const microseconds = ({ clock_gettime }: Libc): bigint => {
  const [time, perSecond] = [new BigInt64Array(2), 1_000_000n]
  clock_gettime(monotonic, time)
  return (time[0] ?? 0n) * perSecond + (time[1] ?? 0n) / 1_000n
}

const watchdogOf = (env: Readonly<Record<string, string | undefined>>): Duration.Duration | undefined => {
  const micros = Number(env.WATCHDOG_USEC)
  const isOurs = env.WATCHDOG_PID === undefined || env.WATCHDOG_PID === String(process.pid)
  return micros > 0 && isOurs ? Duration.micros(BigInt(Math.floor(micros))) : undefined
}

/** By NOTIFY_SOCKET and WATCHDOG_USEC. */
export const make = Effect.fnUntraced(function* (env: Readonly<Record<string, string | undefined>>) {
  const to = address(env.NOTIFY_SOCKET ?? "")
  if (to === undefined) return silent
  const library = yield* Effect.option(Effect.try(libc))
  if (library._tag === "None") return silent
  const watchdog = watchdogOf(env)
  const say: Notify["say"] = (...lines) => Effect.sync(() => send(library.value, to, lines.join("\n")))
  const notify: Notify = {
    say,
    reloading: Effect.suspend(() => say("RELOADING=1", `MONOTONIC_USEC=${microseconds(library.value)}`)),
    isHeard: true,
    ...(watchdog === undefined ? {} : { watchdog }),
  }
  return notify
})
