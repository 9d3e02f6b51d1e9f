/**
 * The table of mistakes (`mistakes.md`): what a user may write or type, and what
 * is said to it. It is there to be read: a message says where, what, and how to
 * mend it.
 *
 * After a change of a message or a mistake: bun test/config/mistakes/table.ts
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Environment from "../../../src/runtime/Environment.ts"
import { cli } from "../../cli/harness.ts"
import { config, type Mistake } from "./Mistake.ts"
import { themes } from "./themes.ts"

export interface Told {
  readonly mistake: Mistake
  readonly code: number
  /** What was printed, without the directory, the ports and the processes of this run. */
  readonly text: string
}

const offline = ["validate", "--offline"]
const file = "relay.config.json"

/** Makes a mistake in a directory of its own, the working directory; `taken` is an address at which something listens. */
const make = async (mistake: Mistake, root: string, taken: string): Promise<Told> => {
  const directory = mkdtempSync(join(root, "m-"))
  process.chdir(directory)
  const filled = (text: string): string => text.replaceAll("{taken}", taken)
  const files = { [file]: (mistake.config ?? config({})).replace("§", ""), ...mistake.files }
  for (const [name, content] of Object.entries(files)) {
    if (content === null) mkdirSync(name)
    else writeFileSync(name, typeof content === "string" ? filled(content) : content)
  }
  const command = (mistake.command ?? offline).map(filled)
  const named = command.includes("-c") ? command : [...command, "-c", file]
  const env = mistake.env ?? {}
  // As the program does before anything else (`start.ts`).
  const refusal = Environment.refusal(env, mistake.started ?? [])
  const { code, stdout, stderr } =
    refusal === undefined ? await cli(named, { env }) : { code: 78, stdout: "", stderr: `relay: ${refusal}` }
  const text = `${stdout}${stderr}`
    .replaceAll(taken, "127.0.0.1:8080")
    .replaceAll(/\bprocess \d+ \([^)]*\)|another relay, or another program,/g, "process 1234 (node)")
    .replaceAll(/\bevt_[A-Za-z0-9]{20}\b/g, "evt_8sZ2kQ")
    .trimEnd()
  return { mistake, code, text }
}

/** Makes all mistakes, one after the other. */
export const makeAll = async (): Promise<ReadonlyArray<readonly [title: string, told: ReadonlyArray<Told>]>> => {
  const root = mkdtempSync(join(tmpdir(), "relay-mistakes-"))
  const before = process.cwd()
  const other = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response("no such page", { status: 404 }),
  })
  try {
    const all: Array<readonly [string, ReadonlyArray<Told>]> = []
    for (const { title, mistakes } of themes) {
      const told: Array<Told> = []
      for (const mistake of mistakes) told.push(await make(mistake, root, `127.0.0.1:${other.port}`))
      all.push([title, told])
    }
    return all
  } finally {
    process.chdir(before)
    await other.stop(true)
    rmSync(root, { recursive: true })
  }
}

const commandOf = ({ mistake: { command = offline, env = {} } }: Told): string => {
  const words = command.map((word) => (/[\s'"]/.test(word) ? `'${word}'` : word))
  const set = Object.keys(env).map((name) => `${name}=…`)
  return [...set, "relay", ...words].join(" ")
}

const row = (told: Told): string =>
  `### ${told.mistake.name}\n\n\`${commandOf(told)}\` exits ${told.code}:\n\n\`\`\`text\n${told.text}\n\`\`\`\n`

export const markdown = (all: Awaited<ReturnType<typeof makeAll>>): string => {
  const count = all.reduce((sum, [, told]) => sum + told.length, 0)
  const head = `# ${count} mistakes, and what is said to them\n\nMade by \`bun test/config/mistakes/table.ts\`, compared by a test, and to be read by a person after every change.\n`
  return [head, ...all.flatMap(([title, told]) => [`## ${title}\n`, ...told.map(row)])].join("\n")
}

export const golden = new URL("./mistakes.md", import.meta.url)

if (import.meta.main) {
  writeFileSync(golden, markdown(await makeAll()))
  process.exit(0)
}
