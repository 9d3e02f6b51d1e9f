/** A relay that tests restart by `relay restart`. */
import { join } from "node:path"
import { relay as run } from "../lib/relay.ts"
import { startTarget, type Target, type TargetOptions } from "./http/fixture.ts"

/** Starts a relay. `pid` returns its current process. */
export const startRestartable = async (options: TargetOptions = {}) => {
  const target = await startTarget(options)
  let { pid } = target.relay
  return {
    target,
    pid: () => pid,
    restart: async () => {
      const args = ["restart", "-c", join(target.directory, "relay.config.json"), "--json"]
      const ended = await run(args, { cwd: target.directory })
      if (ended.code === 0) pid = JSON.parse(ended.stdout).pid
      return ended
    },
    stop: async () => {
      // The last process still holds the pipes of the output.
      process.kill(pid, "SIGINT")
      await target.stop()
    },
  }
}

/** Waits until the sink has all bodies. */
export const keepsAll = async (target: Target, bodies: ReadonlyArray<string>) => {
  for (;;) {
    const kept = new Set(target.kept())
    if (bodies.every((body) => kept.has(body))) return
    await Bun.sleep(50)
  }
}
