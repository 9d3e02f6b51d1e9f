/**
 * Settings of Bun and its engine, which are read from the environment when a process
 * starts, and never later: so `relay run` has the system start its program again
 * with them, in the same process. That takes 8 ms. What the user set stays.
 *
 * **Guarantee.** Where that can't be done (Deno, no Linux, no glibc) the relay runs without them.
 * **Gotcha.** Sockets that it inherits, other than the standard streams, are lost.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import process from "node:process"

const settings = {
  // The heap is collected sooner. In ten minutes of full load a relay has taken 171 MiB to a file, 171 to HTTP and 193
  // to Kafka at most, 20 to 30 less than with the usual growth, for some 3 % more CPU.
  // How far it may grow depends on the machine's memory, here 250 MB.
  BUN_JSC_forceRAMSize: "250000000",
  // It may grow by 55 %. By default it is 100, 50 or 24 %, depending on what the process takes: to Kafka it went back
  // and forth, and each step to 100 % was a new peak.
  BUN_JSC_smallHeapGrowthFactor: "1.55",
  BUN_JSC_mediumHeapGrowthFactor: "1.55",
  BUN_JSC_largeHeapGrowthFactor: "1.55",
  // A full collection is due when what is new may take less than 36 % of the heap, in place of a third.
  BUN_JSC_minEdenToOldGenerationRatio: "0.36",
  // No thread keeps memory ready for the heap to grow.
  BUN_JSC_useWarmUpMarkedBlocks: "0",
  // Threads for files and for names of hosts, started as they are needed. Bun would have as many as processors: two
  // files on a file system that stands still could hold up every other file, and every sink with a host name.
  UV_THREADPOOL_SIZE: "64",
}

/**
 * The settings that a command is to be started again with, as `NAME=value`. Flags may stand before `run`, so it is
 * looked for anywhere: another command with that argument is started again too, which only takes time.
 */
export const missing = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string | undefined>>,
): ReadonlyArray<string> =>
  args.includes("run")
    ? Object.entries(settings).flatMap(([name, value]) => (env[name] === undefined ? `${name}=${value}` : []))
    : []

/** Starts the program again where it runs without its settings; returns where it has them, or can't. */
export const restart = async (): Promise<void> => {
  const added = missing(process.argv.slice(2), process.env)
  if (added.length === 0 || process.platform !== "linux" || "Deno" in globalThis) return
  try {
    const { dlopen, ptr } = await import("bun:ffi")
    const { execve, fcntl } = dlopen("libc.so.6", {
      execve: { args: ["ptr", "ptr", "ptr"], returns: "i32" },
      fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
    }).symbols
    /** An array of pointers to texts, each of which ends with a zero, as C has it. */
    const pointers = (texts: Buffer) => {
      const starts = [0, ...[...texts.keys()].filter((at) => texts[at] === 0).map((at) => at + 1)].slice(0, -1)
      return BigUint64Array.from([...starts.map((start) => BigInt(ptr(texts) + start)), 0n])
    }
    // As the system has them: nothing is decoded, and nothing of Bun's own among them.
    const args = readFileSync("/proc/self/cmdline")
    const env = Buffer.concat([readFileSync("/proc/self/environ"), Buffer.from(`${added.join("\0")}\0`)])
    for (const descriptor of inherited()) fcntl(descriptor, setFlags, 0)
    execve(Buffer.from(`${process.execPath}\0`), pointers(args), pointers(env))
  } catch {
    // It goes on without them.
  }
}

/** F_SETFD; a descriptor without flags outlives the start of a program. */
const setFlags = 2

/** Descriptors of files and pipes, which the config may name: Bun has marked them to be closed. */
const inherited = (): ReadonlyArray<number> =>
  readdirSync("/proc/self/fd")
    .filter((name) => {
      try {
        return /^(\/|pipe:)/.test(readlinkSync(`/proc/self/fd/${name}`))
      } catch {
        // The one that read the directory.
        return false
      }
    })
    .map(Number)
