/** Signals to a process that a test started. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import process from "node:process"

/**
 * Reports whether a thread has stopped or ended. Its state follows the name in brackets, which may contain spaces and
 * brackets.
 */
const stands = (task: string): boolean => {
  try {
    return /\) [TtZX]/.test(readFileSync(`${task}/stat`, "utf8"))
  } catch {
    // It ended meanwhile.
    return true
  }
}

const tasksOf = (pid: number): ReadonlyArray<string> => {
  try {
    return readdirSync(`/proc/${pid}/task`).map((task) => `/proc/${pid}/task/${task}`)
  } catch {
    return []
  }
}

/**
 * Sends a signal to a process, or does nothing if the process has ended. SIGSTOP takes effect later: a server on
 * another core can answer a whole request before it stops. So with SIGSTOP this returns when every thread has stopped,
 * if the system has /proc.
 */
export const sendSignal = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    return
  }
  if (signal !== "SIGSTOP" || !existsSync("/proc")) return
  while (!tasksOf(pid).every(stands)) Bun.sleepSync(1)
}
