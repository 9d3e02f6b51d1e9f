/** Kinds of requirements, each compared with its measurement. */
import * as Load from "./Load.ts"
import type * as Report from "./Report.ts"
import * as Rounds from "./Rounds.ts"

export const factor = ({ median, min, max }: Rounds.Spread): string =>
  `${median.toFixed(2)}× [${min.toFixed(2)}..${max.toFixed(2)}]`

export const atLeast = (requirement: string, bound: number, measured: Rounds.Spread): Report.Verdict => ({
  requirement: `${requirement} ≥ ${bound}×`,
  measured: factor(measured),
  ok: measured.median >= bound,
})

export const atMost = (requirement: string, bound: number, measured: Rounds.Spread): Report.Verdict => ({
  requirement: `${requirement} ≤ ${bound}×`,
  measured: factor(measured),
  ok: measured.median <= bound,
})

/**
 * wrk (`dropped`) drops its requests in flight when it stops. The server accepts and delivers them too, but wrk doesn't
 * count them.
 */
export const complete = (subject: Rounds.Subject, dropped: boolean, senders = Load.connections): Report.Verdict => {
  const lost = Rounds.total(subject, "lost")
  const refused = Rounds.total(subject, "refused")
  const surplus = Rounds.total(subject, "surplus")
  return {
    requirement: `${subject.target.name}: accepted = delivered, none refused`,
    measured: `${Rounds.total(subject, "requests")} sent, ${refused} refused, ${lost} lost, ${surplus} surplus`,
    ok: lost === 0 && refused === 0 && surplus <= (dropped ? senders * subject.runs.length : 0),
  }
}

/** Resident memory in MiB. The binary itself is 50 of it. */
const most = { idle: 100, peak: 220, peakStretch: 150 }

/** The memory limits of a relay, before any load and under any load. */
export const resident = (name: string, idle: number, peak: number): ReadonlyArray<Report.Verdict> => {
  const atMost = (what: string, value: number, bound: number, stretch = false): Report.Verdict => ({
    requirement: `${name}: ${what} memory ≤ ${bound} MiB`,
    measured: `${value.toFixed(0)} MiB`,
    ok: value <= bound,
    stretch,
  })
  return [
    atMost("peak", peak, most.peak),
    atMost("peak", peak, most.peakStretch, true),
    atMost("idle", idle, most.idle),
  ]
}
