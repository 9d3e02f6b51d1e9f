/**
 * moto, for tests: an SNS, SQS, EventBridge, S3 and STS endpoint on loopback, from PyPI.
 *
 * The server runs under a shell that kills it when the test process ends, for whatever reason.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { hasPython, venv } from "./venv.ts"

/** Why the tests against moto don't run and how to run them, or `undefined` if they run. */
export const reasonToSkip = (): string | undefined => {
  if (process.env.RELAY_PARTS === "1") return undefined
  return hasPython()
    ? "RELAY_PARTS=1 bun test runs it against moto (fetched once, by pip, into .cache)"
    : "it needs Python 3.10 or later with venv; then RELAY_PARTS=1 bun test runs it against moto (fetched once, by pip)"
}

export interface Moto {
  readonly url: string
  /** Starts it without data, and waits until it answers. */
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

/** Makes a server for one test, not started (default: on a free port). */
export const makeMoto = async (port?: number): Promise<Moto> => {
  const bin = venv("moto")
  const listens = port ?? (await freePort())
  const url = `http://127.0.0.1:${listens}`
  let shell: ChildProcess | undefined
  return {
    url,
    start: async () => {
      let said = ""
      // The shell's standard input is a pipe from this process. When it ends, the shell kills the server.
      const own = spawn(
        "sh",
        [
          "-c",
          '"$@" </dev/null >&2 & pid=$!; exec 3<&0; (read -r _ <&3; kill -9 $pid 2>/dev/null) & wait $pid',
          "sh",
          join(bin, "python"),
          "-m",
          "moto.server",
          "-H",
          "127.0.0.1",
          "-p",
          String(listens),
        ],
        // Without this, moto takes the first label of a host name for a bucket.
        { stdio: ["pipe", "ignore", "pipe"], env: { ...process.env, S3_IGNORE_SUBDOMAIN_BUCKETNAME: "true" } },
      )
      shell = own
      own.stderr.on("data", (chunk) => {
        said = `${said}${chunk}`.slice(-20_000)
      })
      const answers = () =>
        fetch(`${url}/moto-api/data.json`).then(
          ({ ok }) => ok,
          () => false,
        )
      while (!(await answers())) {
        if (own.exitCode !== null) throw new Error(`moto ended: ${said}`)
        await Bun.sleep(50)
      }
    },
    stop: async () => {
      const own = shell
      shell = undefined
      if (own === undefined) return
      own.stdin?.end()
      if (own.exitCode === null) await once(own, "exit")
    },
  }
}

let shared: Promise<Moto> | undefined

/** The server that all tests of a process share. */
export const sharedMoto = (): Promise<Moto> => {
  shared ??= makeMoto().then(async (moto) => {
    await moto.start()
    return moto
  })
  return shared
}
