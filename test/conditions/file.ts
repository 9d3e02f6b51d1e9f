/** The file sink under each condition. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, statfsSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { mounting, namespace } from "../faults/relay/Mounts.ts"
import { numberOf } from "../faults/relay/Traffic.ts"
import { type Column, never, type Scenario } from "./Column.ts"
import { ofSize } from "./HttpRows.ts"
import { type Condition, type Place, play } from "./Play.ts"

interface Files {
  readonly place: Place
  readonly file: string
}

/** The numbers of the events in a file, one a line. */
const numbersIn = (file: string): ReadonlyArray<number> =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map((line) => numberOf(JSON.parse(line).id))
    : []

/** A scenario with a file in a directory of its own. Lines of a file that was renamed to `.old` count. */
const on = (
  what: string,
  breaks: (files: Files) => unknown,
  heals: (files: Files) => unknown,
  more: Omit<Condition, "what" | "start"> = {},
): Scenario =>
  play({
    what,
    start: async (place) => {
      const file = join(place.directory, "target", "events.ndjson")
      // The relay may have mounts of its own.
      const seen = () => join("/proc", String(place.pid()), "root", file)
      const files = { place, file }
      return {
        sink: { type: "file", path: file },
        breaks: () => breaks(files),
        heals: () => heals(files),
        arrived: () => [...numbersIn(`${file}.old`), ...numbersIn(seen())],
        close: () => {},
      }
    },
    ...more,
  })

const away = ({ file }: Files) => renameSync(file, `${file}.old`)

/** The relay's file is on a disk of 64 KiB, which another program fills. */
const target = (directory: string) => join(directory, "target")
const mount = (directory: string) =>
  `mkdir -p '${target(directory)}' && mount -t tmpfs -o size=64k relay-conditions '${target(directory)}'`
const filler = ({ place }: Files) => join("/proc", String(place.pid()), "root", target(place.directory), "other")
const fill = (files: Files, pages: number) => {
  const { bavail, bsize } = statfsSync(dirname(filler(files)))
  writeFileSync(filler(files), Buffer.alloc((bavail - pages) * bsize, 1))
}
const onSmallDisk = (what: string, pages: number) =>
  on(
    what,
    (files) => fill(files, pages),
    (files) => rmSync(filler(files)),
    {
      says: /waiting: .*\(ENOSPC\): the disk is full/,
      shell: (directory) => mounting(namespace("true") ?? [], mount(directory)),
      lacking: namespace("true") === undefined ? "it may not mount here" : undefined,
      body: ofSize(9_000),
      // The relay's file has a page of the disk by then.
      first: 1,
    },
  )

const write = "https://man7.org/linux/man-pages/man2/write.2.html"
const resolution = "https://man7.org/linux/man-pages/man7/path_resolution.7.html"

export const column: Column = {
  sink: "file",
  cells: {
    a: never("a file has no connection", write),
    b: never("a path has no address", resolution),
    c: never("the kernel asks for no credentials but the process's own user, which stays the same", resolution),
    d: [
      on("the file is renamed, as logrotate does; a new one is begun", away, () => {}, { isQuick: true }),
      on(
        "a directory is at the path for a while",
        (files) => {
          away(files)
          mkdirSync(files.file)
        },
        ({ file }) => rmdirSync(file),
        { says: /misconfigured: .*\(EISDIR\): it is a directory/ },
      ),
      on(
        "a file is where the directory should be, from the start",
        ({ place }) => writeFileSync(target(place.directory), ""),
        ({ place }) => rmSync(target(place.directory)),
        { says: /misconfigured: .*a part of the path is a file/, isThereAtStart: true },
      ),
    ],
    e: never(
      "a write has no time-out: it ends with its result, and the sink waits for it however long it takes",
      write,
    ),
    f: [onSmallDisk("the disk gets full within a line; the part that fits is undone, and written again", 1)],
    g: [
      onSmallDisk("the disk is full; the events wait for room", 0),
      on(
        "another program's file is at the path; it is left as it is, and the lane waits",
        (files) => {
          away(files)
          writeFileSync(files.file, "SQLite format 3\0\u0010\n\n")
        },
        ({ file }) => {
          if (!readFileSync(file, "latin1").startsWith("SQLite format 3\0\u0010\n\n")) throw new Error("it was changed")
          rmSync(file)
        },
        { says: /misconfigured: .*so it is left as it is/ },
      ),
    ],
    h: never(
      "the result of fsync is the kernel's own: nothing else answers in its place",
      "https://man7.org/linux/man-pages/man2/fsync.2.html",
    ),
    i: [2, -2].map((hours) =>
      on(
        `the relay's clock is wrong by ${hours} hours; deliveries go on`,
        () => {},
        () => {},
        { skew: hours * 3_600_000, isThereAtStart: true },
      ),
    ),
    j: never("a write that is slow blocks, and names no time", write),
    k: never("a path has no address", resolution),
    l: [
      on(
        "the directory is removed with the file in it, and made again with the next batch",
        (files) => {
          const { directory } = files.place
          renameSync(files.file, join(directory, "events.old"))
          rmSync(target(directory), { recursive: true })
        },
        ({ place, file }) => renameSync(join(place.directory, "events.old"), `${file}.old`),
      ),
    ],
    m: never("a file has no certificate", write),
    n: [
      on(
        "lines of 1 MiB are whole",
        () => {},
        () => {},
        { body: ofSize(1024 * 1024) },
      ),
    ],
  },
}
