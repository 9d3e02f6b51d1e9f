/**
 * The table of causes (`causes.md`): the actual fault of a part, the relay's message about it, and the remedy in that
 * message. People must read it, because a message that blames the wrong thing misleads its reader.
 *
 * After a change of a message or a cause: RELAY_PARTS=1 bun test/sinks/causes/table.ts
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { Effect } from "effect"
import type { Reason } from "../../../src/sinks/Sink.ts"
import { aws } from "./aws.ts"
import type { Cause, Part } from "./Cause.ts"
import { email } from "./email.ts"
import { accessTokens, proxies } from "./http.ts"
import { kafka } from "./kafka.ts"
import { slack } from "./slack.ts"

export const parts: ReadonlyArray<Part> = [kafka, aws, proxies, accessTokens, email, slack]

export interface Told {
  readonly cause: Cause
  readonly reason: Reason | undefined
}

/** Produces all causes. Returns the sink's reason for each. */
export const tell = async ({ causes }: Part): Promise<ReadonlyArray<Told>> =>
  Effect.runPromise(
    Effect.forEach(await causes(), (cause) =>
      cause.reason.pipe(
        Effect.scoped,
        Effect.orDie,
        Effect.map((reason) => ({ cause, reason })),
      ),
    ),
  )

/** The message without the parts that differ between runs. */
const steady = (message: string): string =>
  message
    .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:1234")
    .replaceAll(/\btopic topic-\d+/g, "topic events")
    .replaceAll("|", "\\|")

export const block = (title: string, told: ReadonlyArray<Told>): string => {
  const rows = told.map(({ cause: { name, todo }, reason }) => {
    const said = reason === undefined ? "nothing" : steady(reason.message)
    return `| ${name} | ${reason?._tag ?? ""} | ${said} | ${todo === "" ? "nothing: it is tried again" : todo} |`
  })
  const head = "| cause | kind | message | advice |\n|---|---|---|---|"
  return `## ${title}\n\n${[head, ...rows].join("\n")}\n`
}

export const golden = new URL("./causes.md", import.meta.url)

/** The blocks of the table, by their titles. */
export const shown = (): ReadonlyMap<string, string> =>
  new Map(
    (existsSync(golden) ? readFileSync(golden, "utf8") : "")
      .split(/^(?=## )/m)
      .slice(1)
      .map((text) => [/^## (.*)$/m.exec(text)?.[1] ?? "", `${text.trimEnd()}\n`]),
  )

if (import.meta.main) {
  const blocks = new Map(shown())
  for (const part of parts) {
    const lacking = part.lacking()
    if (lacking === undefined) blocks.set(part.title, block(part.title, await tell(part)))
    else console.warn(`${part.title} stays as it is: ${lacking}`)
  }
  const head =
    "# Causes and messages\n\nMade by `RELAY_PARTS=1 bun test/sinks/causes/table.ts` from the parts' own behaviour, compared by a test, and to be read by a person after every change.\n"
  writeFileSync(golden, [head, ...parts.map(({ title }) => blocks.get(title) ?? "")].join("\n"))
  process.exit(0)
}
