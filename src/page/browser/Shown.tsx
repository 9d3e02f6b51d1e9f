/**
 * Text that comes from outside, as it may stand on a page: names, types, errors,
 * moments and amounts.
 *
 * **Guarantee.** Text is put in as text. Control characters and marks of
 * direction are replaced, so none reverses what stands beside it.
 */
import { type ComponentChildren, Fragment } from "preact"
import { bytes, instant, span } from "../../formats/Amounts.ts"
import { plain } from "../../formats/Terminal.ts"
import { linkTo } from "./Location.ts"
import { shown } from "./Zone.ts"

/** Code units of a text in a list; all of it is in what the list leads to. */
const longest = 300

/** Text from outside, in a line. */
export const Text = ({ of, max = longest }: { readonly of: string; readonly max?: number }) => {
  const text = plain(of.slice(0, max))
  return <bdi>{of.length > max ? `${text}…` : text}</bdi>
}

/** A message in a line: what it has in backticks is shown as code. */
export const Message = ({ of, max = longest }: { readonly of: string; readonly max?: number }) => {
  const text = plain(of.slice(0, max))
  const parts = (of.length > max ? `${text}…` : text).split(/`([^`]+)`/)
  return <bdi>{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</bdi>
}

/** The parts between which a name may be broken: after punctuation, and where none comes for long. */
const partsOf = (name: string): ReadonlyArray<string> => name.match(/[^\s,_:./-]{1,24}[\s,_:./-]*|[\s,_:./-]+/gu) ?? []

/** A name in a table: one with more than `whole` code units may take several lines, so that it widens no column. */
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

/** An event's type; a delivery that was not understood has none. */
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

/** The way to an event, by its sequence; a delivery that was not understood has no id. */
export const EventLink = ({ id, sequence }: { readonly id: string; readonly sequence: number | string }) => (
  <a href={linkTo("event", `seq_${sequence}`)}>
    <Name of={id === "" ? `seq_${sequence}` : id} />
  </a>
)

/** Text of several lines, such as JSON; as long as it is, so that nothing scrolls but the page. */
export const Block = ({ label, children }: { readonly label: string; readonly children: ComponentChildren }) => (
  <section class="block" aria-label={label}>
    <pre>{children}</pre>
  </section>
)

/** With its zone, by the switch; the exact instant in UTC when it is pointed at. */
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

/** `3 min ago`, by the relay's clock. */
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
/** Few digits: `0.4`, `12`, `1,234`. */
export const perSecond = (value: number): string =>
  value === 0 ? "0" : value < 10 ? value.toFixed(1) : number(Math.round(value))

export const size = (amount: number): string => bytes(amount)

/** Milliseconds in the unit that fits. */
export const millis = (amount: number): string => (amount < 1_000 ? `${amount} ms` : `${(amount / 1_000).toFixed(1)} s`)

export type Tone = "good" | "warn" | "bad" | "quiet"

export const Pill = ({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) => (
  <span class={`pill ${tone}`}>{children}</span>
)

/** This stands in place of a list that is empty. */
export const Nothing = ({ children }: { readonly children: ComponentChildren }) => <p class="nothing">{children}</p>
