/** A service's own words, for messages that people read. */
import * as Terminal from "../formats/Terminal.ts"

/** The longest text that is kept, in code units. */
const longest = 500

/** The text as one line, with control characters escaped, and cut. It may hold whatever the service says. */
export const oneLine = (text: string): string => {
  const line = Terminal.escaped(JSON.stringify(text.trim().slice(0, longest))).slice(1, -1)
  const shown = line.replaceAll('\\"', '"')
  return shown.length <= longest ? shown : `${shown.slice(0, longest - 1).toWellFormed()}…`
}
