/** Files that become something else while they are used: the config, a secret, a sink's output. */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Case, Play } from "../Play.ts"

const stays = "the active config stays; the next one that is right is taken"
const others = "the other sink has every event; none is refused"

const fifo = (path: string): void => void execFileSync("mkfifo", [path])

/**
 * A case whose config file becomes something else. A reload refuses it within seconds, and then accepts a correct file.
 */
const config = (name: string, make: (file: string, play: Play) => void): Case => ({
  name: `the config becomes ${name}`,
  meanwhile: stays,
  run: async (play) => {
    await play.start({ a: play.to(play.a) })
    const file = play.subject.config
    rmSync(file)
    make(file, play)
    const answered = await Promise.race([play.subject.reload(), Bun.sleep(10_000)])
    play.check(answered !== undefined, "a reload of it is not answered within ten seconds")
    play.check(answered === undefined || answered[0] === 422, `a reload of it was answered ${answered?.[0]}`)
    rmSync(file, { recursive: true, force: true })
    play.config({ a: play.to(play.a, { concurrency: 2 }) })
    const again = await Promise.race([play.subject.reload(), Bun.sleep(10_000)])
    play.check(again?.[0] === 200, `a reload of the right one was answered ${again?.[0] ?? "nothing"}`)
    await play.has(play.a, play.acknowledged, "a")
  },
})

/** A case whose secret's file becomes something else, which a reload must refuse. */
const secretFile = (name: string, make: (file: string) => void): Case => ({
  name: `the file of a secret becomes ${name}`,
  meanwhile: "deliveries are verified by the secret in force",
  run: async (play) => {
    const file = join(play.subject.directory, "secret")
    const { secret } = await import("../../relay/Traffic.ts")
    writeFileSync(file, secret)
    const webhooks = play.webhooks([{ name: "faults", value: `file:${file}` }])
    await play.start({ a: play.to(play.a) }, webhooks)
    rmSync(file)
    make(file)
    const answered = await Promise.race([play.subject.reload(), Bun.sleep(10_000)])
    play.check(answered?.[0] === 422, `a reload was answered ${answered?.[0] ?? "nothing within ten seconds"}`)
    rmSync(file, { recursive: true, force: true })
    writeFileSync(file, secret)
    const again = await Promise.race([play.subject.reload(), Bun.sleep(10_000)])
    play.check(again?.[0] === 200, `a reload of the right one was answered ${again?.[0] ?? "nothing"}`)
    await play.has(play.a, play.acknowledged, "a")
  },
})

const numbersIn = (text: string): ReadonlySet<number> =>
  new Set([...text.matchAll(/"id":"evt_(\d+)"/g)].map(([, number]) => Number(number)))

/** A case that spoils a file sink's output. `also` returns other files that hold earlier output. */
const output = (
  name: string,
  spoil: (file: string) => void,
  { repair, also = () => [] }: { repair?: (file: string) => void; also?: (file: string) => ReadonlyArray<string> } = {},
): Case => ({
  name: `a file sink's output ${name}`,
  meanwhile: others,
  run: async (play) => {
    const file = join(play.subject.directory, "out", "events.ndjson")
    await play.start({ a: { type: "file", path: file } })
    await play.burst(30)
    await play.until(async () => (await play.lane("a"))?.backlog === 0, "nothing is written")
    const before = play.acknowledged
    const early = numbersIn(readFileSync(file, "utf8"))
    spoil(file)
    await play.burst(30)
    if (repair !== undefined) {
      await play.until(
        async () => (await play.lane("a"))?.condition === "misconfigured",
        "it is not shown as misconfigured",
      )
      repair(file)
      await play.tell("/lanes/a/resume", undefined, 204)
    }
    await play.until(async () => (await play.lane("a"))?.backlog === 0, "it does not go on")
    const after = play.acknowledged.filter((number) => !before.includes(number))
    const texts = [file, ...also(file)].map((one) => {
      try {
        return readFileSync(one, "utf8")
      } catch {
        return ""
      }
    })
    const late = numbersIn(texts.join("\n"))
    // The very last events may still be in flight.
    const missing = after.slice(0, 30).filter((number) => !late.has(number) && !early.has(number))
    play.check(missing.length === 0, `${missing.length} of 30 are in no file`)
    play.lost += missing.length
  },
})

export const cases: ReadonlyArray<Case> = [
  config("a directory", (file) => mkdirSync(file)),
  config("a pipe that nobody writes to", fifo),
  config("nothing", () => {}),
  config("empty", (file) => writeFileSync(file, "")),
  config("NUL bytes", (file) => writeFileSync(file, Buffer.alloc(4_096))),
  config("no UTF-8", (file) => writeFileSync(file, Buffer.from([0x7b, 0xff, 0xfe, 0x7d]))),
  config("100,000 brackets", (file) => writeFileSync(file, "[".repeat(100_000))),
  config("20 MB of blanks", (file) => writeFileSync(file, " ".repeat(20_000_000))),
  config("a device without end", (file) => symlinkSync("/dev/zero", file)),
  config("a link to itself", (file) => symlinkSync(file, file)),
  secretFile("empty", (file) => writeFileSync(file, "")),
  secretFile("a directory", (file) => mkdirSync(file)),
  secretFile("a pipe that nobody writes to", fifo),
  secretFile("a device without end", (file) => symlinkSync("/dev/zero", file)),
  secretFile("nothing", () => {}),
  output("is removed", (file) => rmSync(file)),
  output("is moved away", (file) => renameSync(file, `${file}.1`), { also: (file) => [`${file}.1`] }),
  output("is removed with its directory", (file) => rmSync(join(file, ".."), { recursive: true })),
  output("is cut to nothing", (file) => truncateSync(file, 0)),
  output("becomes a link to another file", (file) => {
    renameSync(file, `${file}.1`)
    symlinkSync(`${file}.1`, file)
  }),
  output(
    "becomes a directory",
    (file) => {
      rmSync(file)
      mkdirSync(file)
    },
    { repair: (file) => rmSync(file, { recursive: true }) },
  ),
  output(
    "becomes a pipe",
    (file) => {
      rmSync(file)
      fifo(file)
    },
    { repair: (file) => rmSync(file) },
  ),
  output(
    "becomes somebody's text",
    (file) => {
      rmSync(file)
      writeFileSync(file, "Dear diary")
    },
    { repair: (file) => rmSync(file) },
  ),
]
