/** Fields of forms. */
import { eventTypes, relayEventTypes } from "../../event/EventType.ts"
import { plain } from "../../formats/Terminal.ts"

interface Field {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly placeholder?: string
}

const bare = { spellcheck: false, autocomplete: "off" } as const

export const TextField = ({ label, value, onChange, placeholder = "" }: Field) => (
  <label class="field">
    <span>{label}</span>
    <input {...bare} {...{ value, placeholder }} onInput={(event) => onChange(event.currentTarget.value)} />
  </label>
)

/** A moment in the viewer's zone. */
export const MomentField = ({ label, value, onChange }: Field) => (
  <label class="field">
    <span>{label}</span>
    <input type="datetime-local" value={value} onInput={(event) => onChange(event.currentTarget.value)} />
  </label>
)

/** An event type, or a pattern of them, with those of the catalogue to choose from. */
export const TypeField = (field: Field) => (
  <label class="field wide">
    <span>{field.label}</span>
    <input
      value={field.value}
      list="event-types"
      placeholder={field.placeholder ?? ""}
      spellcheck={false}
      autocomplete="off"
      autocapitalize="off"
      onInput={(event) => field.onChange(event.currentTarget.value)}
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
}: Field & { readonly of: ReadonlyArray<string>; readonly any?: string }) => (
  <label class="field">
    <span>{label}</span>
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {any !== "" && <option value="">{any}</option>}
      {of.map((one) => (
        <option key={one} value={one}>
          {plain(one)}
        </option>
      ))}
    </select>
  </label>
)

/** Epoch milliseconds of what was put into a `datetime-local`, in the viewer's zone. */
export const momentOf = (text: string): number | undefined => {
  const at = new Date(text).getTime()
  return Number.isNaN(at) ? undefined : at
}
