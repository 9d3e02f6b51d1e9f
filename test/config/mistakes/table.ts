/**
 * The table of mistakes (`mistakes.md`): the mistakes that a user may make, with their messages. People review it: a
 * message names the place, the mistake and the remedy.
 *
 * After a change of a message or a mistake: bun test/config/mistakes/table.ts
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import * as Environment from "../../../src/runtime/Environment.ts"
import { start } from "../../admin/fixture.ts"
import { canary } from "../../cli/configs.ts"
import { cli } from "../../cli/harness.ts"
import before from "./before.json" with { type: "json" }
import { config, type Mistake, type Theme } from "./Mistake.ts"
import { themes } from "./themes.ts"

interface Named extends Mistake {
  readonly name: string
}

export interface Told {
  readonly mistake: Named
  readonly code: number
  /** The printed text, without the directory, the ports and the processes of this run. */
  readonly text: string
}

const offline = ["validate", "--offline"]
const file = "relay.config.json"

/** A placeholder for an address in a mistake, the address in this run, and the address in the table. */
type Addresses = ReadonlyArray<readonly [name: string, here: string, shown: string]>

/** Makes a mistake in its own directory, which becomes the working directory. */
const make = async (mistake: Named, root: string, addresses: Addresses): Promise<Told> => {
  process.chdir(mkdtempSync(join(root, "m-")))
  const filled = (text: string): string => addresses.reduce((all, [name, here]) => all.replaceAll(name, here), text)
  const files = { [file]: (mistake.config ?? config({})).replace("§", ""), ...mistake.files }
  for (const [name, content] of Object.entries(files)) {
    if (content === null) mkdirSync(name)
    else writeFileSync(name, typeof content === "string" ? filled(content) : content)
  }
  const command = (mistake.command ?? offline).map(filled)
  const named = command.includes("-c") ? command : [...command, "-c", file]
  const env = mistake.env ?? {}
  // The program makes the same check before anything else (`start.ts`).
  const refusal = Environment.refusal(env, mistake.started ?? [])
  const { code, stdout, stderr } =
    refusal === undefined ? await cli(named, { env }) : { code: 78, stdout: "", stderr: `relay: ${refusal}` }
  const text = addresses
    .reduce((all, [, here, shown]) => all.replaceAll(here, shown), `${stdout}${stderr}`)
    .replaceAll(`${process.cwd()}/`, "")
    .replaceAll(/\bprocess \d+ \([^)]*\)|another relay, or another program,/g, "process 1234 (node)")
    .replaceAll(/\bevt_[A-Za-z0-9]{20}\b/g, "evt_8sZ2kQ")
    .trimEnd()
  return { mistake, code, text }
}

const serving = (fetch: (request: Request) => Response | Promise<Response>) =>
  Effect.acquireRelease(
    Effect.sync(() => Bun.serve({ port: 0, hostname: "127.0.0.1", fetch })),
    (server) => Effect.promise(() => server.stop(true)),
  )

const named = (mistakes: Theme["mistakes"]): ReadonlyArray<Named> =>
  Object.entries(mistakes).map(([name, made]) => ({ name, ...(typeof made === "string" ? { config: made } : made) }))

type All = ReadonlyArray<readonly [title: string, told: ReadonlyArray<Told>]>

const inDirectory = Effect.acquireRelease(
  Effect.sync(() => ({ before: process.cwd(), root: mkdtempSync(join(tmpdir(), "relay-mistakes-")) })),
  ({ before, root }) =>
    Effect.sync(() => {
      process.chdir(before)
      rmSync(root, { recursive: true })
    }),
)

/** Makes the mistakes of every theme one after the other: all, or those that `draw` returns. */
export const makeAll = (
  draw: (mistakes: ReadonlyArray<Named>) => ReadonlyArray<Named> = (mistakes) => mistakes,
): Promise<All> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const { root } = yield* inDirectory
      const other = yield* serving(() => new Response("no such page", { status: 404 }))
      const relay = yield* start({
        admin: {
          tokens: [
            { name: "ada", role: "operate", value: Redacted.make(canary) },
            { name: "screen", role: "read", value: Redacted.make(`${canary}-2`) },
          ],
        },
      })
      const admin = yield* serving(relay.handle)
      const addresses: Addresses = [
        ["{taken}", `127.0.0.1:${other.port}`, "127.0.0.1:8080"],
        ["{relay}", `127.0.0.1:${admin.port}`, "127.0.0.1:9080"],
      ]
      return yield* Effect.forEach(themes, ({ title, mistakes }) =>
        Effect.map(
          Effect.forEach(draw(named(mistakes)), (mistake) => Effect.promise(() => make(mistake, root, addresses))),
          (told) => [title, told] as const,
        ),
      )
    }).pipe(Effect.scoped, Effect.orDie),
  )

const commandOf = ({ mistake: { command = offline, env = {} } }: Told): string => {
  const words = command.map((word) => (/[\s'"]/.test(word) ? `'${word}'` : word))
  const set = Object.keys(env).map((name) => `${name}=…`)
  return [...set, "relay", ...words].join(" ")
}

const block = (text: string): string => `\`\`\`text\n${text}\n\`\`\`\n`

/** The findings before each mistake had its own message, by theme and name. */
const first: Readonly<Record<string, string>> = before

/** The command, exit code and end of most mistakes, which the head of the page describes once. */
const usual = { command: "relay validate --offline", code: 78, end: "\n\n1 error" } as const

/** Returns the output of the command. If the command, the exit code or the end isn't the usual one, adds them. */
const printed = (told: Told): string => {
  const command = commandOf(told)
  const isUsual = command === usual.command && told.code === usual.code && told.text.endsWith(usual.end)
  if (isUsual) return block(told.text.slice(0, -usual.end.length))
  return `\`${command}\` exits ${told.code}:\n\n${block(told.text)}`
}

const row = (title: string, told: Told): string => {
  const { name } = told.mistake
  const said = first[`${title}: ${name}`]
  const earlier = said === undefined ? "" : `\nAt first:\n\n${block(said)}`
  return `### ${name}\n\n${printed(told)}${earlier}`
}

export const markdown = (all: All): string => {
  const count = all.reduce((sum, [, told]) => sum + told.length, 0)
  const head = `# ${count} mistakes, with their messages\n\nMade by \`bun test/config/mistakes/table.ts\`, compared by a test, and to be read by a person after every change.\n\nIf an entry names no command, \`${usual.command}\` printed this, then an empty line and \`1 error\`, and exited with ${usual.code}.\n`
  return [head, ...all.flatMap(([title, told]) => [`## ${title}\n`, ...told.map((one) => row(title, one))])].join("\n")
}

export const golden = new URL("./mistakes.md", import.meta.url)

if (import.meta.main) {
  writeFileSync(golden, markdown(await makeAll()))
  process.exit(0)
}
