/**
 * Shows text from outside safely: names, types, errors, times and amounts.
 *
 * **Guarantee.** Text is inserted as text. Control characters and direction marks are replaced, so no text reverses
 * its neighbours.
 */
import { signal } from "@preact/signals"
import { type ComponentChildren, Fragment } from "preact"
import { orUndefined } from "../../../event/Tolerance.ts"
import { bytes, instant, plain, span } from "../../../formats/Texts.ts"
import { linkTo } from "./Location.ts"

const key = "relay.utc"

/**
 * The zone in which times are shown and entered: the zone of the viewer or UTC, which the command line shows. One
 * switch changes it everywhere, and the browser stores the choice, unless it forbids storage.
 */
export const isUtc = signal(orUndefined(() => localStorage.getItem(key)) === "yes")

export const switchZone = (): void => {
  isUtc.value = !isUtc.value
  // Without storage the choice holds only for this tab.
  orUndefined(() => localStorage.setItem(key, isUtc.value ? "yes" : "no"))
}

const time = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" } as const
const near = new Intl.DateTimeFormat(undefined, time)
const far = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", ...time })

const utcDay = (date: Date): string => date.toISOString().slice(0, 10)

/**
 * Formats a time with its zone: `14:03:22 GMT+1` or `13:03:22 UTC`. Includes the date if it is not today or if
 * `isFull` is set.
 */
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

/** Returns the `datetime-local` value of an instant, or an empty text if the text is not an instant. */
export const toField = (text: string): string => {
  const date = new Date(text)
  return Number.isNaN(date.getTime()) ? "" : instant(date.getTime() - offset(date)).slice(0, 16)
}

/**
 * Returns the instant of a `datetime-local` value, such as `2026-11-20T08:00:00.000Z`, or an empty text if the value
 * is incomplete.
 *

 */
export const fromField = (text: string): string => {
  const date = new Date(isUtc.value && text !== "" ? `${text}Z` : text)
  return Number.isNaN(date.getTime()) ? "" : date.toISOString()
}

/** Maximum code units of a text in a list. The linked view shows the whole text. */
const longest = 300

/** Text from outside, in a line. */
export const Text = ({ of, max = longest }: { readonly of: string; readonly max?: number }) => {
  const text = plain(of.slice(0, max))
  return <bdi>{of.length > max ? `${text}…` : text}</bdi>
}

/** A message in a line. Parts in backticks are shown as code. */
export const Message = ({ of, max = longest }: { readonly of: string; readonly max?: number }) => {
  const text = plain(of.slice(0, max))
  const parts = (of.length > max ? `${text}…` : text).split(/`([^`]+)`/)
  return <bdi>{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</bdi>
}

/**
 * Splits a name into parts between which a line may break: after punctuation, or after a long part without
 * punctuation.
 */
const partsOf = (name: string): ReadonlyArray<string> => name.match(/[^\s,_:./-]{1,24}[\s,_:./-]*|[\s,_:./-]+/gu) ?? []

/** A name in a table. A name with more than `whole` code units may wrap, so that it doesn't widen its column. */
export const Name = ({
  of,
  max = 60,
  whole = 26,
}: {
  readonly of: string
  readonly max?: number
  readonly whole?: number
}) => {
  if (of.length <= whole) return <Text of={of} max={max} />
  const shown = plain(of.slice(0, max))
  return (
    <bdi>
      {partsOf(of.length > max ? `${shown}…` : shown).map((part, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </bdi>
  )
}

/** An event's type. A delivery that could not be read has none. */
export const TypeName = ({
  of,
  max = longest,
  isStrong = false,
}: {
  readonly of: string
  readonly max?: number
  readonly isStrong?: boolean
}) => {
  const name = <Name of={of === "" ? "(no type)" : of} max={max} whole={44} />
  return isStrong ? <strong>{name}</strong> : name
}

/** A link to an event by its sequence, because a delivery that could not be read has no id. */
export const EventLink = ({ id, sequence }: { readonly id: string; readonly sequence: number | string }) => (
  <a href={linkTo("event", `seq_${sequence}`)}>
    <Name of={id === "" ? `seq_${sequence}` : id} />
  </a>
)

/** Text of several lines, such as JSON, at its full height, so that only the page scrolls. */
export const Block = ({ label, children }: { readonly label: string; readonly children: ComponentChildren }) => (
  <section class="block" aria-label={label}>
    <pre>{children}</pre>
  </section>
)

/** Shows a time in the chosen zone. The tooltip has the exact instant in UTC. */
export const Moment = ({ at, exact = false }: { readonly at: number; readonly exact?: boolean }) => {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return <>–</>
  const text = shown(date, exact)
  const [, day, clock] = /^(.+?)\s+(\d+[:.]\d\d.*)$/.exec(text) ?? []
  return (
    <time dateTime={instant(at)} title={instant(at)}>
      {day === undefined ? (
        text
      ) : (
        <>
          <span>{day}</span> <wbr />
          <span>{clock}</span>
        </>
      )}
    </time>
  )
}

/** Shows an age such as `3 min ago`, by the relay's clock. */
export const Ago = ({ at, now }: { readonly at: number; readonly now: number }) => {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return <>–</>
  return (
    <time dateTime={instant(at)} title={shown(date, true)}>
      {at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`}
    </time>
  )
}

export const number = (amount: number): string => amount.toLocaleString("en-US")
/** Shows a number with few digits: `0.4`, `12`, `1,234`. */
export const perSecond = (value: number): string =>
  value === 0 ? "0" : value < 10 ? value.toFixed(1) : number(Math.round(value))

export const size = (amount: number): string => bytes(amount)

export type Tone = "good" | "warn" | "bad" | "quiet"

export const Pill = ({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) => (
  <span class={`pill ${tone}`}>{children}</span>
)

/** Shown instead of an empty list. */
export const Nothing = ({ children }: { readonly children: ComponentChildren }) => <p class="nothing">{children}</p>
