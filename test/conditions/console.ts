/** The console sink under each condition. Its reader is a process behind a pipe. */
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { numberOf } from "../faults/relay/Traffic.ts"
import { sendSignal } from "../lib/signal.ts"
import { type Column, never, type Scenario } from "./Column.ts"
import { ofSize } from "./HttpRows.ts"
import { type Condition, play } from "./Play.ts"

interface Reader {
  readonly signal: (signal: NodeJS.Signals) => void
  /** Ends it, and starts another one. */
  readonly replace: () => Promise<void>
}

/** A scenario in which a process reads the standard output of the relay. */
const on = (
  what: string,
  breaks: (reader: Reader) => unknown,
  heals: (reader: Reader) => unknown,
  more: Omit<Condition, "what" | "start"> = {},
): Scenario =>
  play({
    what,
    shell: (directory) => `exec 1<>'${join(directory, "pipe")}'`,
    start: async ({ directory }) => {
      const [pipe, copy] = [join(directory, "pipe"), join(directory, "copy")]
      spawnSync("mkfifo", [pipe])
      writeFileSync(copy, "")
      const start = () => Bun.spawn(["sh", "-c", `exec cat <'${pipe}' >>'${copy}'`])
      let child = start()
      const reader: Reader = {
        signal: (signal) => sendSignal(child.pid, signal),
        replace: async () => {
          child.kill("SIGTERM")
          await child.exited
          child = start()
        },
      }
      return {
        sink: { type: "console", format: "raw" },
        breaks: () => breaks(reader),
        heals: () => heals(reader),
        arrived: () =>
          readFileSync(copy, "utf8")
            .split("\n")
            .slice(0, -1)
            .map((line) => numberOf(JSON.parse(line).id)),
        close: () => child.kill("SIGKILL"),
      }
    },
    ...more,
  })

const stops = (reader: Reader) => reader.signal("SIGSTOP")
const goesOn = (reader: Reader) => reader.signal("SIGCONT")
const nothing = () => {}
const pipe = "https://man7.org/linux/man-pages/man7/pipe.7.html"

export const column: Column = {
  sink: "console",
  cells: {
    a: never("a pipe has no network between its ends", pipe),
    b: never("a pipe has no address", pipe),
    c: never("a pipe asks for no credentials", pipe),
    d: never("the process that starts the relay gives it its standard output, and nothing can create it again", pipe),
    e: [
      on("its reader stops for longer than the time-out; nothing is written twice", stops, goesOn, {
        says: /waiting|stalled/,
        body: ofSize(100 * 1024),
        bound: { copies: 0, because: "a write can't be taken back, so it is waited for" },
      }),
    ],
    f: [
      on("a part of a line is in the pipe when its reader stops; the rest follows", stops, goesOn, {
        says: /waiting|stalled/,
        body: ofSize(300_001),
        bound: { copies: 0, because: "a write can't be taken back, so it is waited for" },
      }),
    ],
    g: never("a pipe takes all bytes alike: it refuses none for its content", pipe),
    h: never("the result of a write is the kernel's own: nothing else answers in its place", pipe),
    i: [2, -2].map((hours) =>
      on(`the relay's clock is wrong by ${hours} hours; deliveries go on`, nothing, nothing, {
        skew: hours * 3_600_000,
        isThereAtStart: true,
      }),
    ),
    j: never("a pipe that is full blocks, and names no time", pipe),
    k: never("a pipe has no address", pipe),
    l: [on("its reader ends, and another one starts", (reader) => reader.replace(), nothing, { isQuick: true })],
    m: never("a pipe has no certificate", pipe),
    n: [on("lines of 1 MiB are whole", nothing, nothing, { body: ofSize(1024 * 1024) })],
  },
}
