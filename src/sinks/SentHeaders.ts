/** The headers of a message to a broker: what the relay says of the event, what came with it, and the config's own. */
import type { Entry } from "../event/Entry.ts"
import { type Header, identity, provenance } from "../formats/MessageHeaders.ts"
import * as Template from "../formats/Template.ts"

/** The part of a config that shapes headers; the values of its own are templates. */
interface Shape {
  readonly format: "raw" | "cloudevents"
  readonly headers: Readonly<Record<string, string>>
}

/** The differences between brokers. */
interface Broker {
  /** Whether a value may be any text, or must fit into a header of one line. */
  readonly values: "text" | "header"
  /** Stand before the others with `raw`. */
  readonly raw: ReadonlyArray<Header>
  /** CloudEvents' binary mode, in this broker's binding. */
  readonly cloudEvent: (entry: Entry) => ReadonlyArray<Header>
}

/** Says what the signed bytes are. */
export const json: Header = ["content-type", "application/json"]

/** Sets a header of the config, in the place of one of ours where it has that name. */
const set = (headers: Array<Header>, header: Header): void => {
  const at = headers.findIndex(([name]) => name === header[0])
  headers[at === -1 ? headers.length : at] = header
}

/** Makes the headers of an event. The function that is returned throws what a template throws. */
export const compile = (config: Shape, { values, raw, cloudEvent }: Broker) => {
  const own = Object.entries(config.headers).map(([name, value]) => [name, Template.compile(value, values)] as const)
  const fit = values === "header" ? Template.escapeHeader : undefined
  return (entry: Entry): ReadonlyArray<Header> => {
    const headers = config.format === "raw" ? [...raw, ...identity(entry, fit)] : [...cloudEvent(entry)]
    headers.push(...provenance(entry, fit))
    for (const [name, value] of own) set(headers, [name, value.render(entry)])
    return headers
  }
}
