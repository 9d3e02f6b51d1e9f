/**
 * The zone in which moments are shown and put in: the viewer's, or UTC, which
 * the command line shows. One switch changes it everywhere, and the browser
 * keeps it.
 */
import { signal } from "@preact/signals"
import { instant } from "../../formats/Amounts.ts"

const key = "relay.utc"

/** A browser may forbid it. */
const stored = (): string | null => {
  try {
    return localStorage.getItem(key)
  } catch {
    return null
  }
}

export const isUtc = signal(stored() === "yes")

export const switchZone = (): void => {
  isUtc.value = !isUtc.value
  try {
    localStorage.setItem(key, isUtc.value ? "yes" : "no")
  } catch {
    // It holds for this tab.
  }
}

const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" } as const
const near = new Intl.DateTimeFormat(undefined, time)
const far = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", ...time })

const utcDay = (date: Date): string => date.toISOString().slice(0, 10)

/** With its zone: `14:03:22 GMT+1`, or `13:03:22 UTC`; with the date where it is not today's or `isFull`. */
export const shown = (date: Date, isFull = false): string => {
  const now = new Date()
  if (!isUtc.value) return (isFull || date.toDateString() !== now.toDateString() ? far : near).format(date)
  const clock = `${date.toISOString().slice(11, 19)} UTC`
  return isFull || utcDay(date) !== utcDay(now) ? `${utcDay(date)} ${clock}` : clock
}

/** The short name of the zone: `UTC`, `GMT+1`. */
export const zone = (): string =>
  isUtc.value ? "UTC" : (near.formatToParts().find(({ type }) => type === "timeZoneName")?.value ?? "")

const minute = 60_000
const offset = (date: Date): number => (isUtc.value ? 0 : date.getTimezoneOffset() * minute)

/** The value of a `datetime-local` for an instant; empty where the text is none. */
export const toField = (text: string): string => {
  const date = new Date(text)
  return Number.isNaN(date.getTime()) ? "" : instant(date.getTime() - offset(date)).slice(0, 16)
}

/** The instant that a `datetime-local` was given: `2026-11-20T08:00:00.000Z`; empty where it is incomplete. */
export const fromField = (text: string): string => {
  const date = new Date(isUtc.value && text !== "" ? `${text}Z` : text)
  return Number.isNaN(date.getTime()) ? "" : date.toISOString()
}
