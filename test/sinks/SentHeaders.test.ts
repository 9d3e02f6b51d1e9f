/** The pages of the brokers' sinks name all headers of a message, and no others. */
import { describe, expect, test } from "bun:test"
import { readPage } from "../lib/docs.ts"
import { preview } from "./preview.ts"
import { entry } from "./samples.ts"

const configs: Readonly<Record<string, object>> = {
  kafka: { brokers: ["b:9092"], topic: "events" },
  nats: { servers: ["n:4222"], subject: "events" },
  rabbitmq: { url: "amqp://127.0.0.1", exchange: "events" },
}
const trace = { traceparent: `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`, tracestate: "a=b" }

/** The names in the first column of a page's table of headers, from the rows whose last column includes the format. */
const named = (type: string, format: string): ReadonlyArray<string> => {
  const [, table = ""] =
    /^\| header \| value \| sent \|\n.*\n((?:\|.*\n)*)/m.exec(readPage(`src/sinks/${type}/${type}.md`)) ?? []
  return table
    .trimEnd()
    .split("\n")
    .map((row) => row.slice(2, -2).split(" | "))
    .filter(([, , sent = ""]) => sent.startsWith("always") || sent.includes(`\`${format}\``))
    .flatMap(([names = ""]) => [...names.matchAll(/`(.+?)`/g)].map(([, name = ""]) => name))
}

for (const [type, config] of Object.entries(configs)) {
  describe(`the page of ${type}`, () => {
    for (const format of ["raw", "cloudevents", "template"]) {
      test(`names the headers of a message with ${format}`, () => {
        const { headers } = preview(
          type,
          { ...config, format, ...(format === "template" && { body: "{{id}}" }) },
          entry(1, { trace }),
        )
        expect(Object.keys(headers ?? {}).length).toBeGreaterThan(5)
        expect(named(type, format).toSorted()).toEqual(Object.keys(headers ?? {}).toSorted())
      })
    }
  })
}
