/** Rules for where events go: the sinks, their templates and files, and the client details they may ask for. */
import * as Pointer from "../../event/Pointer.ts"
import * as Template from "../../formats/Template.ts"
import * as Pattern from "../../routing/Pattern.ts"
import { error, type Finding, formatPath, type Path, warning } from "../diagnostics/Source.ts"
import { type Fields, fields, nameRules, repeated, type Text, texts } from "./Shape.ts"

/** Keys that are templates in every type of sink that has them. */
const templated = ["key", "url", "topic", "headers", "body", "summary", "objectId", "details", "dedupKey"]

/** Every text below a value. */
const deepTexts = (value: unknown, path: Path): ReadonlyArray<Text> => {
  if (typeof value === "string") return [{ path, text: value }]
  if (Array.isArray(value)) return value.flatMap((item, index) => deepTexts(item, [...path, index]))
  return Object.entries(fields(value)).flatMap(([key, item]) => deepTexts(item, [...path, key]))
}

const templateRules = ({ path, text }: Text): ReadonlyArray<Finding> => {
  const problem = Template.problem(text)
  return problem === undefined ? [] : [error(path, problem)]
}

/** A client certificate is two files. */
const tlsRules = (tls: Fields, at: Path): ReadonlyArray<Finding> => {
  const [half] = ["certificate", "key"].filter((key) => tls[key] === undefined)
  return half === undefined || (tls.certificate === undefined && tls.key === undefined)
    ? []
    : [error([...at, half], `the key "${half}" is missing`, '"certificate" and "key" go together')]
}

/** Each file has one writer: two would cut off each other's lines, and the journal would not survive it. */
export const fileRules = (root: Fields): ReadonlyArray<Finding> => {
  const journal = texts(fields(root.journal).path ?? "./data/journal.db", ["journal", "path"])
  const files = Object.entries(fields(root.sinks)).flatMap(([name, value]) => {
    const { type, path } = fields(value)
    return type === "file" ? texts(path, ["sinks", name, "path"]) : []
  })
  const plain = (path: string) => path.replaceAll(/\/(\.?\/)+/g, "/").replace(/^\.\//, "")
  return repeated([...journal, ...files], ({ text }) => plain(text)).map(([again, first]) =>
    error(again.path, `${formatPath(first.path)} is the same file`, "give each a file of its own"),
  )
}

export const sinkRules = (root: Fields): ReadonlyArray<Finding> => {
  const sinks = fields(root.sinks)
  const adopted: Array<Text> = []
  const found = Object.entries(sinks).flatMap(([name, value]) => {
    const at: Path = ["sinks", name]
    const sink = fields(value)
    const renamed = texts(sink.renamedFrom, [...at, "renamedFrom"])
    adopted.push(...renamed)
    return [
      ...nameRules(name, at, "sink"),
      ...renamed.flatMap(({ path, text }) =>
        Object.hasOwn(sinks, text)
          ? [
              error(
                path,
                `the sink "${text}" still exists, so nothing was renamed`,
                "take this key out, or the other sink",
              ),
            ]
          : [],
      ),
      ...templated.flatMap((key) => deepTexts(sink[key], [...at, key])).flatMap(templateRules),
      ...Object.keys(fields(sink.headers)).flatMap((header) =>
        /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(header)
          ? []
          : [error([...at, "headers", header], "this is no header name", "letters, digits and dashes", "key")],
      ),
      ...tlsRules(fields(sink.tls), [...at, "tls"]),
    ]
  })
  const twice = repeated(adopted, ({ text }) => text).map(([again, first]) =>
    error(again.path, `${formatPath(first.path)} takes over the same sink`, "only one can have what is pending there"),
  )
  return [...found, ...twice]
}

/** Details can only be had where the API is told of, and for types and places that are some. */
export const clientRules = (root: Fields): ReadonlyArray<Finding> => {
  const asking = Object.entries(fields(root.sinks)).filter(([, sink]) => fields(sink).enrich !== undefined)
  if (root.clients === undefined) {
    return asking.map(([name]) =>
      error(
        ["sinks", name, "enrich"],
        'there is no "clients": nobody says where details are to be had',
        undefined,
        "key",
      ),
    )
  }
  const events = Object.entries(fields(fields(root.clients).events)).flatMap(([pattern, pointer]) => {
    const at: Path = ["clients", "events", pattern]
    const problem = Pattern.problem(pattern)
    return [
      ...(problem === undefined ? [] : [error(at, problem, undefined, "key")]),
      ...(typeof pointer === "string" && Pointer.parse(pointer) === undefined
        ? [error(at, "this is no JSON Pointer", "such as /data/object/client_id")]
        : []),
    ]
  })
  return asking.length === 0
    ? [...events, warning(["clients"], "no sink asks for client details", 'with "enrich"', "key")]
    : events
}
