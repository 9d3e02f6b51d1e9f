/**
 * An SMTP server in its own process, so that tests can kill and freeze it. It is smtp-server from the lockfile, and
 * ends with its parent process.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { sendSignal } from "../lib/signal.ts"

export interface Mail {
  readonly messageId: string
  readonly subject: string
  readonly text: string
}

export interface Mailbox {
  /** Host and port. */
  readonly server: string
  readonly start: () => Promise<void>
  readonly kill: () => Promise<void>
  readonly signal: (signal: NodeJS.Signals) => void
  /** All mails that it ever accepted, in order. */
  readonly mails: () => ReadonlyArray<Mail>
  /** Ends it, and removes its files. */
  readonly remove: () => Promise<void>
}

const script = join(import.meta.dir, "smtpProcess.ts")

/** Makes a mailbox that is not started. */
export const makeMailbox = async (): Promise<Mailbox> => {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), "relay-mailbox-"))
  const file = join(directory, "mails.ndjson")
  let child: ReturnType<typeof spawn> | undefined
  const spawn = () =>
    Bun.spawn([process.execPath, script, String(port), file], { stdin: "pipe", stdout: "pipe", stderr: "inherit" })
  const kill = async () => {
    child?.kill("SIGKILL")
    await child?.exited
    child = undefined
  }
  return {
    server: `127.0.0.1:${port}`,
    start: async () => {
      child = spawn()
      const { done } = await child.stdout.getReader().read()
      if (done) throw new Error("the SMTP server of the tests ended")
    },
    kill,
    signal: (signal) => child && sendSignal(child.pid, signal),
    mails: () =>
      existsSync(file)
        ? readFileSync(file, "utf8")
            .split("\n")
            // The last line may be incomplete.
            .slice(0, -1)
            .map((line) => JSON.parse(line))
        : [],
    remove: async () => {
      await kill()
      rmSync(directory, { recursive: true })
    },
  }
}
