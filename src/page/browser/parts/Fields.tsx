/** Form fields and their values, and the fields that select events. */
import type { ComponentChildren } from "preact"
import { useEffect, useState } from "preact/hooks"
import type { Status } from "../../../admin/status/Status.ts"
import { eventTypes, relayEventTypes } from "../../../event/EventType.ts"
import { plain } from "../../../formats/Texts.ts"
import { fromField, toField, zone } from "./Shown.tsx"

interface Input {
  readonly value: string
  readonly onChange: (value: string) => void
}

interface Field extends Input {
  readonly label: string
  readonly placeholder?: string
}

/** The state of a form; `field` gives the properties that bind an input to it. */
export const useForm = <A extends Readonly<Record<string, string>>>(initial: A) => {
  const [form, setForm] = useState(initial)
  // Another address has other values
  useEffect(() => setForm(initial), [JSON.stringify(initial)])
  const field = (key: keyof A): Input => ({
    value: form[key] ?? "",
    onChange: (value) => setForm((now) => ({ ...now, [key]: value })),
  })
  return { form, field }
}

interface Pressed {
  readonly text: string
  /** Names the button for those who hear it, if its text alone doesn't. */
  readonly label?: string
  readonly class?: string
  readonly disabled?: boolean
  readonly isPressed?: boolean
  readonly onClick: () => void
}

/** A button that submits no form. */
export const Button = ({ text, label, isPressed, ...more }: Pressed) => (
  <button type="button" {...more} {...(label && { "aria-label": label })} aria-pressed={isPressed}>
    {text}
  </button>
)

/** Fields in a line, followed by their buttons. */
export const Filters = ({
  onSubmit,
  children,
}: {
  readonly onSubmit?: () => void
  readonly children: ComponentChildren
}) => (
  <form
    class="filters"
    onSubmit={(event) => {
      event.preventDefault()
      onSubmit?.()
    }}
  >
    {children}
  </form>
)

const bare = { spellcheck: false, autocomplete: "off", autocapitalize: "off" } as const

export const TextField = ({ label, value, onChange, placeholder = "" }: Field) => (
  <label class="field">
    <span>{label}</span>
    <input {...bare} {...{ value, placeholder }} onInput={(event) => onChange(event.currentTarget.value)} />
  </label>
)

/** An instant, entered in the zone that is shown. */
export const MomentField = ({ label, value, onChange }: Field) => (
  <label class="field">
    <span>
      {label} ({zone()})
    </span>
    <input
      type="datetime-local"
      value={toField(value)}
      onInput={(event) => onChange(fromField(event.currentTarget.value))}
    />
  </label>
)

/** An event type or a pattern. Suggests the types of the catalogue. */
export const TypeField = ({
  label = "Type",
  value,
  onChange,
  placeholder = "appointment.**",
}: Partial<Field> & Input) => (
  <label class="field wide">
    <span>{label}</span>
    <input
      {...bare}
      {...{ value, placeholder }}
      list="event-types"
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  </label>
)

export const EventTypes = () => (
  <datalist id="event-types">
    {[...eventTypes, ...relayEventTypes].map((type) => (
      <option key={type} value={type} />
    ))}
  </datalist>
)

export const Choice = ({
  label,
  value,
  of,
  onChange,
  any = "any",
  labels = {},
}: Field & {
  readonly of: ReadonlyArray<string>
  readonly any?: string
  readonly labels?: Readonly<Record<string, string>>
}) => (
  <label class="field">
    <span>{label}</span>
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {any !== "" && <option value="">{any}</option>}
      {of.map((one) => (
        <option key={one} value={one}>
          {plain(labels[one] ?? one)}
        </option>
      ))}
    </select>
  </label>
)

export const webhooksOf = ({ webhooks }: Status): ReadonlyArray<string> => webhooks.map(({ name }) => name)

/** The times of a selection, as ISO instants. */
export const anyTime = { since: "", until: "", endedSince: "", endedUntil: "" }

/** The empty selection: no field restricts the events. */
export const anyEvent = { type: "", account: "", object: "", webhook: "", outcome: "", ...anyTime }

/** The fields for an event's time of receipt, and for the time when it ended at a sink. */
export const TimeFields = ({ field }: { readonly field: (key: keyof typeof anyTime) => Input }) => (
  <>
    <MomentField label="Received from" {...field("since")} />
    <MomentField label="Received before" {...field("until")} />
    <MomentField label="Ended from" {...field("endedSince")} />
    <MomentField label="Ended before" {...field("endedUntil")} />
  </>
)

/** The fields that select events. */
export const EventFields = ({
  field,
  typeLabel = "Type",
  webhooks,
  outcomes,
}: {
  readonly field: (key: keyof typeof anyEvent) => Input
  readonly typeLabel?: string
  readonly webhooks: ReadonlyArray<string>
  readonly outcomes: ReadonlyArray<string>
}) => (
  <>
    <TypeField label={typeLabel} {...field("type")} />
    <TextField label="Account" {...field("account")} />
    <TextField label="Object" {...field("object")} placeholder="cli_…" />
    <Choice label="Webhook" {...field("webhook")} of={webhooks} />
    <Choice label="Outcome" {...field("outcome")} of={outcomes} />
    <TimeFields field={field} />
  </>
)

/** Epoch milliseconds of an instant. */
export const momentOf = (text = ""): number | undefined => {
  const at = new Date(text).getTime()
  return Number.isNaN(at) ? undefined : at
}

type Times = { readonly [key in keyof typeof anyTime]?: number }

/** Returns the times that a form or an address has, in epoch milliseconds. */
export const timesOf = (texts: { readonly [key in keyof typeof anyTime]?: string | undefined }): Times =>
  Object.fromEntries(
    Object.keys(anyTime).flatMap((key) => {
      const at = momentOf(texts[key as keyof typeof anyTime])
      return at === undefined ? [] : [[key, at]]
    }),
  )
