/** The current view, stored in the address after `#`, so that it can be bookmarked and the Back button works. */
import { signal } from "@preact/signals"
import { orUndefined } from "../../../event/Tolerance.ts"

interface Place {
  readonly view: string
  readonly of: string
  readonly query: Readonly<Record<string, string>>
}

const decoded = (text: string): string => orUndefined(() => decodeURIComponent(text)) ?? text

/** `#/event/evt_1?x=y` */
const parse = (hash: string): Place => {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?")
  const [view = "", ...rest] = path.split("/")
  return { view, of: decoded(rest.join("/")), query: Object.fromEntries(new URLSearchParams(query)) }
}

export const place = signal<Place>(parse(location.hash))
addEventListener("hashchange", () => {
  place.value = parse(location.hash)
})

export const linkTo = (view: string, of = "", query: Readonly<Record<string, string | undefined>> = {}): string => {
  const given = Object.entries(query).flatMap(([key, value]) =>
    value === undefined || value === "" ? [] : [[key, value]],
  )
  const text = new URLSearchParams(given).toString()
  return `#/${view}${of === "" ? "" : `/${encodeURIComponent(of)}`}${text === "" ? "" : `?${text}`}`
}

export const go = (hash: string): void => {
  location.hash = hash
}
