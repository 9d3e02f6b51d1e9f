import { Database } from "bun:sqlite"
import { describe, expect, spyOn, test } from "bun:test"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect, Logger, Schema } from "effect"
import { TestClock } from "effect/testing"
import { File, FileConfig, LogFile } from "../../../src/sinks/file/File.ts"
import { directory } from "../../lib/directory.ts"
import { it } from "../../lib/effect.ts"
import { bodies as linesOf } from "../../lib/lines.ts"
import { seeded } from "../../lib/seeded.ts"
import { tries } from "../../lib/tries.ts"
import { preview } from "../preview.ts"
import { entries, entry, envelope, reasonOf } from "../samples.ts"

const open = (config: typeof FileConfig.Encoded) => File.open(Schema.decodeUnknownSync(FileConfig)(config))

const bodies = (path: string) => linesOf(readFileSync(path)).map((body) => Buffer.from(body).toString())
const expected = (from: number, to: number) =>
  entries(to - from + 1, from).map(({ event }) => Buffer.from(event.body).toString())

/** A file with this text, as an earlier relay left it. */
const begun = Effect.fnUntraced(function* (path: string, text: string) {
  yield* Effect.scoped(Effect.flatMap(open({ path }), (sink) => sink.send(entries(1))))
  truncateSync(path, 0)
  appendFileSync(path, text)
})

describe("a file", () => {
  it.live("that ends in half a line is repaired before the first write", function* () {
    const path = join(yield* directory, "events.ndjson")
    yield* begun(path, `${expected(1, 2).join("\n")}\n{"id":"evt_3","torn`)
    yield* (yield* open({ path })).send(entries(1, 3))
    expect(bodies(path)).toEqual(expected(1, 3))
  })

  it.live("that is only half a line, longer than one read, is emptied", function* () {
    const path = join(yield* directory, "events.ndjson")
    yield* begun(path, `{"x":"${"x".repeat(200_000)}`)
    yield* (yield* open({ path })).send(entries(1))
    expect(bodies(path)).toEqual(expected(1, 1))
  })

  it.live("with other content is left unchanged", function* () {
    const path = join(yield* directory, "journal.db")
    writeFileSync(path, "SQLite format 3\0\npage")
    const reason = yield* reasonOf((yield* open({ path })).send(entries(1)))
    expect(reason).toMatchObject({ _tag: "SinkMisconfigured", message: expect.stringContaining("a file of its own") })
    expect(readFileSync(path, "utf8")).toBe("SQLite format 3\0\npage")
  })

  it.live("with zeros from a power cut, at its end and between lines, is repaired, and the size is reported", () => {
    const lines: Array<string> = []
    return Effect.gen(function* () {
      const path = join(yield* directory, "events.ndjson")
      const [one = "", two = "", three = ""] = expected(1, 3)
      const inner = `${"\0".repeat(5_000)}"id":"evt_9"}`
      yield* begun(path, `${one}\n${inner}\n${two}\n{"id":"evt_4${"\0".repeat(700)}\n${"\0".repeat(4_096)}`)
      yield* (yield* open({ path })).send(entries(1, 3))
      const text = readFileSync(path, "utf8")
      expect(
        text
          .trimEnd()
          .split("\n")
          .map((line) => line.trim()),
      ).toEqual([one, two, three])
      for (const line of text.trimEnd().split("\n")) JSON.parse(line)
      const cut = `{"id":"evt_4`.length + 700 + 1 + 4_096
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain(`${path} was repaired: ${cut} bytes after the last whole line were cut off`)
      expect(lines[0]).toContain(`${inner.length + 1} bytes between whole lines were overwritten with spaces`)
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])))
  })

  it.live("of only zeros is emptied, and a file that begins with zeros keeps its lines", function* () {
    const path = join(yield* directory, "events.ndjson")
    yield* begun(path, "\0".repeat(9_000))
    yield* (yield* open({ path })).send(entries(1))
    expect(bodies(path)).toEqual(expected(1, 1))
    yield* begun(path, `${"\0".repeat(9_000)}\n${expected(1, 2).join("\n")}\n`)
    yield* (yield* open({ path })).send(entries(1, 3))
    expect(bodies(path).map((line) => line.trim())).toEqual(expected(1, 3))
  })

  it.live(
    `that is longer than what is read of it loses no line, whatever its end is made of (${tries(200)} seeds)`,
    function* () {
      const root = yield* directory
      for (let seed = 1; seed <= tries(200); seed++) {
        const path = join(root, `${seed}.ndjson`)
        const random = seeded(seed)
        const below = (limit: number) => Math.floor(random() * limit)
        const valid: Array<string> = []
        // One file in forty is longer than the window.
        const start = seed % 40 === 0 ? 9_000 : 3
        for (let index = 0; index < start; index++) valid.push(JSON.stringify({ index, x: "ü".repeat(500) }))
        const parts = valid.map((line) => `${line}\n`)
        for (let index = below(12); index >= 0; index--) {
          const line = JSON.stringify({ index, text: "a{}\\n".repeat(below(300)) })
          const torn = line.slice(0, below(line.length))
          const harm = below(5)
          if (harm === 0) parts.push(`${torn}${"\0".repeat(1 + below(9_000))}\n`)
          else if (harm === 1) parts.push(`${"\0".repeat(1 + below(9_000))}\n`)
          else if (harm === 2) parts.push(`${torn}\n`)
          else {
            parts.push(`${line}\n`)
            valid.push(line)
          }
        }
        if (below(2) === 0) parts.push("\0".repeat(below(100)))
        yield* begun(path, parts.join(""))
        yield* (yield* open({ path })).send(entries(1))
        const text = readFileSync(path, "utf8")
        expect(text.endsWith("\n")).toBe(true)
        const found = text.trimEnd().split("\n")
        expect(found.map((line) => line.trim()).filter((line) => line !== "")).toEqual([...valid, ...expected(1, 1)])
        for (const line of found) if (line.trim() !== "") JSON.parse(line)
        rmSync(path)
      }
    },
  )

  it.live(
    "of JSON that isn't a file of lines is never repaired, even if one of its lines could be an event",
    function* () {
      const path = join(yield* directory, "config.json")
      for (const text of ['{\n  "rows": [\n{"a":1},\n{"a":2}\n]\n}\n', '{\n"a": 1\n}\n', "[\n{}\n]\n", "text\n{}\n"]) {
        for (const whole of [text, text.trimEnd()]) {
          writeFileSync(path, whole)
          const reason = yield* reasonOf((yield* open({ path })).send(entries(1)))
          expect(reason).toMatchObject({ _tag: "SinkMisconfigured" })
          expect(readFileSync(path, "utf8")).toBe(whole)
        }
      }
    },
  )

  const foreign: Readonly<Record<string, (root: string) => Buffer>> = {
    "an SQLite database": (root) => {
      const database = new Database(join(root, "made.db"))
      database.run("CREATE TABLE notes (text TEXT)")
      for (let n = 0; n < 500; n++) database.run("INSERT INTO notes VALUES (?)", [`{"n":${n}}\n{}\n`])
      database.close()
      return readFileSync(join(root, "made.db"))
    },
    "a tar file": (root) => {
      writeFileSync(join(root, "one.ndjson"), expected(1, 40).join("\n"))
      return spawnSync("tar", ["-C", root, "-c", "one.ndjson"]).stdout
    },
    "a program": () => readFileSync("/bin/ls"),
    "text with blank lines": () => Buffer.from("Dear all,\n\n\nbest\n"),
    "a line of more than a mebibyte": () => Buffer.from(`{"x":"${"x".repeat(1_500_000)}"}\n`),
    "lines that are no objects": () => Buffer.from(`${expected(1, 3).join("\n")}\n7\n`),
    zeros: () => Buffer.alloc(70_000),
  }
  for (const [what, make] of Object.entries(foreign)) {
    it.live(`that is ${what} is refused by the sink and by its check, and left unchanged`, function* () {
      const root = yield* directory
      const path = join(root, "events.ndjson")
      writeFileSync(path, make(root))
      const [hash, files] = [Bun.hash(readFileSync(path)), readdirSync(root)]
      const sink = yield* open({ path })
      for (const tried of [sink.check, sink.send(entries(1)), sink.send(entries(1))]) {
        expect(yield* reasonOf(tried)).toMatchObject({
          _tag: "SinkMisconfigured",
          message: expect.stringContaining("it is left as it is"),
        })
      }
      expect([Bun.hash(readFileSync(path)), readdirSync(root)]).toEqual([hash, files])
    })
  }

  it.live(
    "of lines that another program began is appended to, and only the relay's own lines are repaired",
    function* () {
      const path = join(yield* directory, "events.ndjson")
      const before = `not an event\n${'{"of":"another"}\n'.repeat(5_000)}`
      writeFileSync(path, before)
      yield* (yield* open({ path })).send(entries(1))
      appendFileSync(path, '{"id":"evt_2","torn')
      yield* (yield* open({ path })).send(entries(1, 2))
      expect(readFileSync(path, "utf8")).toBe(`${before}${expected(1, 2).join("\n")}\n`)
    },
  )

  it.live("whose last batch was larger than the part that is read is repaired as well", function* () {
    const path = join(yield* directory, "events.ndjson")
    yield* begun(path, `${expected(1, 1)[0]}\n`)
    const large = entry(2, { body: Buffer.from(JSON.stringify({ id: "evt_2", x: "x".repeat(3_000_000) })) })
    yield* (yield* open({ path })).send([large])
    truncateSync(path, 2_500_000)
    yield* (yield* open({ path })).send(entries(1, 3))
    expect(bodies(path)).toEqual([...expected(1, 1), ...expected(3, 3)])
  })

  it.live("is not touched by opening and checking: another relay may be writing to it", function* () {
    const root = yield* directory
    const path = join(root, "events.ndjson")
    writeFileSync(path, '{"id":"evt_1"}\n')
    yield* (yield* open({ path })).check
    expect(readFileSync(path, "utf8")).toBe('{"id":"evt_1"}\n')
    yield* (yield* open({ path: join(root, "new", "events.ndjson") })).check
    expect(readdirSync(root)).toEqual(["events.ndjson"])
  })

  it.live("that is moved away or deleted is replaced by a new one", function* () {
    const path = join(yield* directory, "events.ndjson")
    const sink = yield* open({ path })
    yield* sink.send(entries(1, 1))
    renameSync(path, `${path}.1`)
    yield* sink.send(entries(1, 2))
    rmSync(path)
    yield* sink.send(entries(1, 3))
    expect([bodies(`${path}.1`), bodies(path)]).toEqual([expected(1, 1), expected(3, 3)])
  })

  it.live("that another program has truncated is continued at its end", function* () {
    const path = join(yield* directory, "events.ndjson")
    const sink = yield* open({ path })
    yield* sink.send(entries(3))
    truncateSync(path, 0)
    yield* sink.send(entries(1, 4))
    expect(bodies(path)).toEqual(expected(4, 4))
  })

  it.live("whose directory was deleted is recreated with it", function* () {
    const data = join(yield* directory, "data")
    const path = join(data, "events.ndjson")
    const sink = yield* open({ path })
    yield* sink.send(entries(1))
    rmSync(data, { recursive: true })
    yield* sink.send(entries(1, 2))
    expect(bodies(path)).toEqual(expected(2, 2))
  })

  it.live("that was replaced by a directory is reported, and used again when it is a file", function* () {
    const path = join(yield* directory, "events.ndjson")
    const sink = yield* open({ path })
    yield* sink.send(entries(1))
    rmSync(path)
    mkdirSync(path)
    const reason = yield* reasonOf(sink.send(entries(1, 2)))
    expect(reason).toMatchObject({ _tag: "SinkMisconfigured", message: expect.stringContaining("EISDIR") })
    rmSync(path, { recursive: true })
    yield* sink.send(entries(1, 2))
    expect(bodies(path)).toEqual(expected(2, 2))
  })

  it.live("is readable by its owner and group only", function* () {
    const path = join(yield* directory, "events.ndjson")
    yield* (yield* open({ path })).send(entries(1))
    expect((yield* Effect.promise(() => import("node:fs/promises").then((fs) => fs.stat(path)))).mode & 0o007).toBe(0)
  })
})

test("two sinks on one file, as a reload may leave for a while, write one after the other", async () => {
  const append = LogFile.prototype.append
  let [under, most] = [0, 0]
  const counting = spyOn(LogFile.prototype, "append").mockImplementation(async function (this: LogFile, lines, now) {
    under += 1
    most = Math.max(most, under)
    await append.call(this, lines, now)
    under -= 1
  })
  const sent = Effect.gen(function* () {
    const path = join(yield* directory, "events.ndjson")
    const sinks = [
      yield* File.open({ path, format: "raw", rotate: { daily: false } }),
      yield* File.open({ path, format: "raw", rotate: { daily: false } }),
    ]
    yield* Effect.forEach(sinks, (sink) => sink.send(entries(100)), { concurrency: "unbounded" })
  })
  await Effect.runPromise(Effect.scoped(sent)).finally(() => counting.mockRestore())
  expect(most).toBe(1)
})

describe("a write that fails half-way", () => {
  it.live("leaves no part of a line, reports the reason, and succeeds when there is space", function* () {
    const path = join(yield* directory, "events.ndjson")
    const script = fileURLToPath(new URL("filling.ts", import.meta.url))
    const limited = `ulimit -f 64 && exec "$0" "$1" "$2"`
    const { stdout } = spawnSync("bash", ["-c", limited, process.execPath, script, path], { encoding: "utf8" })
    const { left, sent, ...rest } = JSON.parse(stdout)
    expect(rest).toEqual({ reason: "SinkUnavailable", message: expect.stringContaining("(EFBIG)") })
    expect(sent).toBeGreaterThan(0)
    expect(linesOf(Buffer.from(left)).map((body) => Buffer.from(body).toString())).toEqual(expected(1, sent))
    expect(left.endsWith("}\n")).toBe(true)
    expect(bodies(path)).toEqual(expected(sent + 1, sent + 50))
  })
})

describe("a relay that is killed in the middle of a write", () => {
  it.live("leaves every delivered event whole in the files, and the next relay continues", function* () {
    const script = fileURLToPath(new URL("appending.ts", import.meta.url))
    for (const batches of [1, 7, 20]) {
      const root = yield* directory
      const path = join(root, "events.ndjson")
      const passed = yield* Effect.promise(async () => {
        const child = spawn(process.execPath, [script, path], { stdio: ["ignore", "pipe", "inherit"] })
        let printed = ""
        child.stdout.on("data", (chunk: Uint8Array) => {
          printed += Buffer.from(chunk).toString()
          if (printed.split("\n").length > batches) child.kill("SIGKILL")
        })
        await once(child, "close")
        return Number(printed.trim().split("\n").at(-1))
      })
      yield* (yield* open({ path })).send([entry(0)])
      const there = readdirSync(root).flatMap((name) => bodies(join(root, name)))
      expect(bodies(path).at(-1)).toBe(expected(0, 0)[0] ?? "")
      expect(new Set(there).isSupersetOf(new Set(expected(1, passed)))).toBe(true)
      for (const body of there) JSON.parse(body)
    }
  })
})

describe("rotation", () => {
  const rotated = (root: string) =>
    readdirSync(root)
      .filter((name) => name.startsWith("events-"))
      .toSorted()

  it.effect("by size starts a new file, and numbers the files of the same second", function* () {
    const root = yield* directory
    const path = join(root, "events.ndjson")
    const sink = yield* open({ path, rotate: { size: "100 B" } })
    for (let sequence = 1; sequence <= 3; sequence++) yield* sink.send(entries(1, sequence))
    expect(rotated(root)).toEqual(["events-1970-01-01T00-00-00Z-1.ndjson", "events-1970-01-01T00-00-00Z.ndjson"])
    expect(bodies(join(root, "events-1970-01-01T00-00-00Z.ndjson"))).toEqual(expected(1, 1))
    expect(bodies(join(root, "events-1970-01-01T00-00-00Z-1.ndjson"))).toEqual(expected(2, 2))
    expect(bodies(path)).toEqual(expected(3, 3))
  })

  it.effect("by day starts a new file at the first event after midnight UTC", function* () {
    const root = yield* directory
    const path = join(root, "events.ndjson")
    const sink = yield* open({ path, rotate: { daily: true } })
    yield* TestClock.adjust("23 hours")
    yield* sink.send(entries(1, 1))
    yield* TestClock.adjust("59 minutes")
    yield* sink.send(entries(1, 2))
    yield* TestClock.adjust("1 minute")
    yield* sink.send(entries(1, 3))
    expect(rotated(root)).toEqual(["events-1970-01-02T00-00-00Z.ndjson"])
    expect(bodies(join(root, "events-1970-01-02T00-00-00Z.ndjson"))).toEqual(expected(1, 2))
    expect(bodies(path)).toEqual(expected(3, 3))
  })

  it.effect("keeps the newest old files and touches no others", function* () {
    const root = yield* directory
    const path = join(root, "events.ndjson")
    appendFileSync(join(root, "events-mine.ndjson"), "")
    const sink = yield* open({ path, rotate: { size: "1 B", keep: 2 } })
    for (let sequence = 1; sequence <= 5; sequence++) {
      yield* sink.send(entries(1, sequence))
      yield* TestClock.adjust("1 hour")
    }
    expect(rotated(root)).toEqual([
      "events-1970-01-01T03-00-00Z.ndjson",
      "events-1970-01-01T04-00-00Z.ndjson",
      "events-mine.ndjson",
    ])
    expect(bodies(path)).toEqual(expected(5, 5))
  })
})

describe("rotation within one second", () => {
  it.effect("still keeps the newest old files", function* () {
    const root = yield* directory
    const path = join(root, "events.ndjson")
    const sink = yield* open({ path, rotate: { size: "1 B", keep: 2 } })
    for (let sequence = 1; sequence <= 14; sequence++) yield* sink.send(entries(1, sequence))
    const old = readdirSync(root).filter((name) => name.startsWith("events-"))
    expect(old.flatMap((name) => bodies(join(root, name))).toSorted()).toEqual(expected(12, 13))
    expect(bodies(path)).toEqual(expected(14, 14))
  })
})

describe("a line", () => {
  it.live("of an event that no line can hold is base64 with a mark and the event's id", function* () {
    const path = join(yield* directory, "events.ndjson")
    const bodies = ['{\n"id":"evt_1"}', '{\r"id":"evt_1"}'].map((text) => new TextEncoder().encode(text))
    yield* (yield* open({ path })).send(bodies.map((body) => entry(1, { body })))
    const marked = bodies.map((body) => Buffer.from(body).toString("base64"))
    expect(readFileSync(path, "utf8")).toBe(
      marked.map((base64) => `{"relay_base64":"${base64}","event_id":"evt_1"}\n`).join(""),
    )
  })
})

test("a preview of a file has its line", () => {
  expect(preview("file", { path: "events.ndjson" })).toEqual({
    file: "events.ndjson",
    line: JSON.parse(JSON.stringify(envelope(1))),
  })
})
