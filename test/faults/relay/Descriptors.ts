/**
 * Connections use up all file descriptors. No delivery is accepted, but the relay lives and reports the cause on its
 * admin listener. It loses nothing, and continues when the descriptors are freed.
 */
import { existsSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { isEnough, type Line } from "../Line.ts"
import { eventually, openFiles, Subject, skipped } from "./Subject.ts"
import { Ends } from "./Traffic.ts"

const limits = [64, 128, 192] as const
/**
 * Requests to the admin listener in a round, and counts of descriptors before them: connections come and go, and their
 * descriptors with them.
 */
const probes = 20
const counts = 30
const longRounds = 30

/**
 * Opens `count` silent connections, and reopens them if they are refused or ended. Returns a function that ends them.
 */
const crowd = (port: number, count: number): (() => void) => {
  const sockets = new Set<Socket>()
  let isOver = false
  const come = (): void => {
    if (isOver) return
    const socket = connect(port, "127.0.0.1").on("error", () => {})
    sockets.add(socket)
    socket.on("close", () => {
      sockets.delete(socket)
      setTimeout(come, 20)
    })
  }
  for (let index = 0; index < count; index++) come()
  return () => {
    isOver = true
    for (const socket of sockets) socket.destroy()
  }
}

export const descriptors: Line = {
  name: "descriptors",
  fault: "file descriptors used up",
  run: async (options) => {
    if (!existsSync("/proc/self/fd")) return skipped("it counts descriptors in /proc: run it on Linux")
    const ends = new Ends()
    const file = { type: "file", path: "events.ndjson", rotate: { size: "64 KiB" } }
    // Few connections to the sinks: they alone must not use up the freed descriptors.
    const few = { concurrency: 4 }
    const sinks = { live: { ...ends.sinks.live, ...few }, late: { ...ends.sinks.late, ...few }, file }
    const subject = await Subject.make(options, { sinks })
    const { sender } = subject
    const broken: Array<string> = []
    let told = 0
    let fewest = Number.POSITIVE_INFINITY
    const rounds = options.long ? longRounds : limits.length
    for (let round = 0; round < rounds && !isEnough(options, broken.length); round++) {
      const limit = limits[round % limits.length] ?? limits[0]
      const relay = await subject.start({ after: `ulimit -n ${limit}` })
      await sender.burst(300, 8)
      let over = false
      const loading = sender.load(() => over, 8)
      const leave = crowd(subject.port, limit * 2)
      const count = async () => {
        await Bun.sleep(50)
        fewest = Math.min(fewest, limit - openFiles(relay.pid))
      }
      for (let counted = 0; counted < counts; counted++) await count()
      for (let asked = 0; asked < probes; asked++) {
        await count()
        const ready = await subject.ask("/readyz", "GET", 2_000).catch(() => "nothing")
        if (ready === "nothing") broken.push(`with ${limit} descriptors, all used up, /readyz answers nothing`)
        if (ready.startsWith("file descriptors are used up")) told += 1
      }
      leave()
      over = true
      await Promise.race([loading, Bun.sleep(5_000)])
      const ended = await Promise.race([relay.exited, Bun.sleep(0)])
      if (ended !== undefined) broken.push(`with ${limit} descriptors it ended with ${ended}`)
      const accepts = await eventually(async () => (await sender.send()) === 202, 10)
      if (!accepts) broken.push(`with ${limit} descriptors it accepts nothing when they are given back`)
      if (!(await subject.drained())) broken.push(`with ${limit} descriptors the backlog did not drain within a minute`)
      const { journal } = await subject.status()
      if (journal.health !== "ok") broken.push(`the journal is ${journal.health}: ${journal.message}`)
      await relay.kill()
    }
    if (told === 0) broken.push("no probe was told that descriptors are used up")
    if (fewest > 12) broken.push(`${fewest} descriptors were left: the line proves nothing`)
    const lost = ends.lost(sender).length
    broken.push(...ends.altered)
    await ends.close()
    if (lost + broken.length === 0) subject.remove()
    return {
      rounds,
      acknowledged: sender.acknowledged.size,
      lost,
      duplicates: 0,
      broken,
      notes: [`${fewest} left; told by ${told} of ${rounds * probes} probes`],
    }
  },
}
