/**
 * Notifies the service manager (sd_notify(3)): `READY=1`, `WATCHDOG=1`,
 * `STOPPING=1`, `STATUS=…`, and around a reload `RELOADING=1` and `READY=1`.
 *
 * **Guarantee.** Without NOTIFY_SOCKET or without a libc, nothing is sent and
 * nothing fails. A manager that doesn't read delays nothing. The newest message of
 * each kind waits and is sent again.
 */
import process from "node:process"
import { Context, Duration, Effect } from "effect"
import type { Libc } from "./platform/Platform.ts"
import { libc } from "./Runtime.ts"

/** Sends messages to the service manager, if there is one. */
export interface Notify {
  /** Sends lines such as `READY=1`. */
  readonly say: (...lines: ReadonlyArray<string>) => Effect.Effect<void>
  /** Reports that a reload begins. `READY=1` later reports its end. */
  readonly reloading: Effect.Effect<void>
  readonly isHeard: boolean
  /** How often the manager expects `WATCHDOG=1`, or it kills the process. Absent without a watchdog. */
  readonly watchdog?: Duration.Duration
}

const silent: Notify = { say: () => Effect.void, reloading: Effect.void, isHeard: false }

/** Sends nothing unless a service manager started `relay run`. */
export const Notify = Context.Reference<Notify>("relay/runtime/Notify", { defaultValue: () => silent })

const unix = 1
const datagram = 2
const closeOnExec = 0o2000000
const dontWait = 0x40
const noSignal = 0x4000
/** Milliseconds until waiting messages are sent again. */
const sendAgain = 500
const longestPath = 107

/** Returns a `sockaddr_un`. A name that begins with `@` is abstract, and its first byte is zero. */
const address = (path: string): Uint8Array | undefined => {
  const name = Buffer.from(path.startsWith("@") ? `\0${path.slice(1)}` : `${path}\0`)
  if (!/^[@/]/.test(path) || name.length > longestPath) return undefined
  const family = Buffer.alloc(2)
  new Uint16Array(family.buffer, family.byteOffset, 1)[0] = unix
  return Buffer.concat([family, name])
}

/** Reports whether the socket accepted the message. */
const send = ({ socket, sendto, close }: Libc, to: Uint8Array, text: string): boolean => {
  const bytes = Buffer.from(text)
  const descriptor = socket(unix, datagram | closeOnExec, 0)
  if (descriptor < 0) return false
  const sent = sendto(descriptor, bytes, bytes.length, noSignal | dontWait, to, to.length)
  close(descriptor)
  return Number(sent) === bytes.length
}

/** Sends messages in order. A waiting message is replaced by the next message with the same first line. */
const queue = (library: Libc, to: Uint8Array) => {
  const waiting = new Map<string, string>()
  let timer: ReturnType<typeof setTimeout> | undefined
  const sendAll = (): void => {
    for (const [kind, text] of waiting) {
      if (!send(library, to, text)) break
      waiting.delete(kind)
    }
    clearTimeout(timer)
    if (waiting.size > 0) {
      timer = setTimeout(sendAll, sendAgain)
      timer.unref()
    }
  }
  return (lines: ReadonlyArray<string>): void => {
    const [kind = ""] = lines
    waiting.delete(kind)
    waiting.set(kind, lines.join("\n"))
    sendAll()
  }
}

const monotonic = 1

/** Returns microseconds of CLOCK_MONOTONIC, the manager's clock. The runtimes' own clock starts with the process. */
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

/** Makes a `Notify` from NOTIFY_SOCKET and WATCHDOG_USEC. */
export const make = Effect.fnUntraced(function* (env: Readonly<Record<string, string | undefined>>) {
  const to = address(env.NOTIFY_SOCKET ?? "")
  if (to === undefined) return silent
  const library = yield* Effect.option(Effect.try(libc))
  if (library._tag === "None") return silent
  const watchdog = watchdogOf(env)
  const add = queue(library.value, to)
  const say: Notify["say"] = (...lines) => Effect.sync(() => add(lines))
  const notify: Notify = {
    say,
    reloading: Effect.suspend(() => say("RELOADING=1", `MONOTONIC_USEC=${microseconds(library.value)}`)),
    isHeard: true,
    ...(watchdog === undefined ? {} : { watchdog }),
  }
  return notify
})
