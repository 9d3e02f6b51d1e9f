/** The names that a template gives to events of the known types: for advice, before there is an event. */
import { eventTypes, resource } from "../event/EventType.ts"

const placeholder = /\{\{\s*(type|resource)\s*\}\}/g

/** Topics or subjects of events of these types; none if the template needs more than the type. */
export const foreseeable = (template: string, types: ReadonlyArray<string> = eventTypes): ReadonlyArray<string> => {
  const nameOf = (type: string) => template.replace(placeholder, (_, key) => (key === "type" ? type : resource(type)))
  return template.replace(placeholder, "").includes("{{") ? [] : [...new Set(types.map(nameOf))]
}
