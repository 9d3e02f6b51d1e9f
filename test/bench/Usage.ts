/**
 * The resources that a process has used. CPU, page faults and memory are from `/proc`, so Linux only. Garbage
 * collections are from the lines that JavaScriptCore logs with `BUN_JSC_logGC=1`.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs"

/** Linux reports CPU time in hundredths of a second, whatever the kernel's tick is. */
const microsPerTick = 10_000

/** Fields of `/proc/PID/stat` after the name in parentheses, which may contain spaces. */
const fieldsOf = (pid: number): ReadonlyArray<number> => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  return stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number)
}

/** Returns the CPU time of a process with all its threads, user and system, in microseconds. */
export const cpuMicros = (pid: number): number => {
  const [user = 0, system = 0] = fieldsOf(pid).slice(11)
  return (user + system) * microsPerTick
}

/** Returns the CPU time of a process's ended children, in microseconds. */
export const endedChildrenMicros = (pid: number): number => {
  const [user = 0, system = 0] = fieldsOf(pid).slice(13)
  return (user + system) * microsPerTick
}

/**
 * Returns the number of pages that were mapped without reading a disk: new memory, or memory that was freed and is
 * needed again.
 */
export const pageFaults = (pid: number): number => fieldsOf(pid)[7] ?? 0

/** Returns the resident memory in MiB, including mapped files: now, and at its highest. */
export const memory = (pid: number): { readonly now: number; readonly peak: number } => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024
  return { now: mebibytes("VmRSS"), peak: mebibytes("VmHWM") }
}

/** Makes a Bun process log its collections. */
export const loggingCollections = { BUN_JSC_logGC: "1" }

const isCollection = /^\[?GC|^Requesting GC/

/** Returns a log without the lines that `loggingCollections` adds. */
export const withoutCollections = (lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.filter((line) => !isCollection.test(line))

/** Follows a log. The function returns the number of collections of all threads in it, and reads only new bytes. */
export const collectionsIn = (log: string): (() => number) => {
  const buffer = Buffer.allocUnsafe(1 << 20)
  let offset = 0
  let rest = ""
  let collections = 0
  return () => {
    const fd = openSync(log, "r")
    for (;;) {
      const read = readSync(fd, buffer, 0, buffer.length, offset)
      if (read === 0) break
      offset += read
      const lines = (rest + buffer.toString("latin1", 0, read)).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) if (line.includes("Collection, ")) collections += 1
    }
    closeSync(fd)
    return collections
  }
}
