/**
 * The file system of a file sink freezes for some seconds, as NFS does if its server is gone: every write to it hangs.
 * Meanwhile deliveries are accepted and reach the other sinks, and the admin listener answers. Then the file gets the
 * events that it missed.
 *
 * The relay runs with the number of threads that the systemd unit and the container image set. By default Bun has one
 * per processor. Then this holds only while fewer writes hang. With more, every file sink waits, and so does every sink
 * that has to look up its host.
 */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import type { Line } from "../Line.ts"
import { mounting, namespace } from "./Mounts.ts"
import { Subject, skipped } from "./Subject.ts"
import { Ends, numberOf } from "./Traffic.ts"

const unit = readFileSync(new URL("../../../config/deploy/relay.service", import.meta.url), "utf8")
const [, threads = ""] = /^Environment=UV_THREADPOOL_SIZE=(.*)$/m.exec(unit) ?? []

/**
 * Sinks on that file system: more than the machine has processors, and so more than the runtime has file threads by
 * default.
 */
const names = Array.from({ length: availableParallelism() + 2 }, (_, index) => `file${index}`)
/** Seconds of the freeze. Requests to the relay end at least `margin` seconds earlier. */
const frozen = { normal: 6, long: 40 }
const margin = 1
/** Milliseconds within which the admin side answers. */
const patience = 2_000

export const frozenFile: Line = {
  name: "file-frozen",
  fault: "the file system of a file sink stands still",
  run: async (options) => {
    const ends = new Ends()
    const files = Object.fromEntries(names.map((name) => [name, { type: "file", path: `frozen/${name}.ndjson` }]))
    const elsewhere = { type: "file", path: "elsewhere.ndjson" }
    const subject = await Subject.make(options, { sinks: { ...ends.sinks, ...files, elsewhere } })
    const { sender } = subject
    const place = join(subject.directory, "frozen")
    const image = join(subject.directory, "image")
    const made = spawnSync("sh", ["-c", `truncate -s 64M '${image}' && mkfs.ext4 -q '${image}' && mkdir '${place}'`])
    const mount = `mount -o loop '${image}' '${place}'`
    const words =
      made.status === 0 ? namespace(`${mount} && fsfreeze -f '${place}' && fsfreeze -u '${place}'`) : undefined
    if (words === undefined) {
      subject.remove()
      return skipped("it freezes a file system of its own: run it as root, with mkfs.ext4, losetup and fsfreeze")
    }
    const relay = await subject.start({ env: { UV_THREADPOOL_SIZE: threads }, after: mounting(words, mount) })
    const seen = `/proc/${relay.pid}/root${place}`
    const broken: Array<string> = []
    await sender.burst(500)
    if (!(await subject.drained())) broken.push("the first events did not reach the sinks")

    const seconds = options.long ? frozen.long : frozen.normal
    // A separate process thaws the file system, whatever becomes of this process.
    const freezing = Bun.spawn(["sh", "-c", `fsfreeze -f '${seen}'; sleep ${seconds}; fsfreeze -u '${seen}'`])
    await Bun.sleep(500)
    const before = { accepted: sender.acknowledged.size, arrived: ends.live.times.size }
    const sending = sender.paced(100, seconds - margin - 1)
    let [asked, slowest] = [0, 0]
    for (const end = performance.now() + (seconds - margin - 1) * 1_000; performance.now() < end; asked++) {
      const began = performance.now()
      const ready = await subject.ask("/readyz", "GET", patience).catch(() => "nothing")
      if (!ready.startsWith("ready")) broken.push(`/readyz answers ${ready} while a file system stands still`)
      slowest = Math.max(slowest, performance.now() - began)
      await Bun.sleep(50)
    }
    const accepted = sender.acknowledged.size - before.accepted
    const arrived = ends.live.times.size - before.arrived
    const backlog = await subject.metric("relay_lane_backlog_events")
    const stuck = names.filter((name) => (backlog.get(name) ?? 0) > 0)
    if (freezing.exitCode !== null || stuck.length < names.length) broken.push("not all files stood still")
    const { lanes } = await subject.status()
    const untold = lanes.filter(({ name, condition }) => names.includes(name) && condition !== "waiting")
    if (untold.length > 0) broken.push(`nobody is told why ${untold.map(({ name }) => name).join(", ")} stand still`)
    const elsewhereWaits = backlog.get("elsewhere") ?? 0
    if (elsewhereWaits > accepted / 2) broken.push(`${elsewhereWaits} events wait for a file on another file system`)
    if (accepted === 0) broken.push("no delivery was accepted while a file system stood still")
    if (arrived < accepted / 2) broken.push(`only ${arrived} of ${accepted} events reached another sink meanwhile`)
    await freezing.exited
    await sending
    if (!(await subject.drained())) broken.push("the backlog did not drain when the file system moved again")

    const lost = new Set(ends.lost(sender))
    let duplicates = 0
    for (const file of [
      ...names.map((name) => join(seen, `${name}.ndjson`)),
      join(subject.directory, "elsewhere.ndjson"),
    ]) {
      const lines = readFileSync(file, "utf8").trimEnd().split("\n")
      const written = new Set(lines.map((line) => numberOf(JSON.parse(line).id)))
      duplicates = Math.max(duplicates, lines.length - written.size)
      for (const number of sender.acknowledged) if (!written.has(number)) lost.add(number)
    }
    broken.push(...ends.altered)
    await relay.kill()
    await ends.close()
    if (lost.size + broken.length === 0) subject.remove()
    return {
      rounds: 1,
      acknowledged: sender.acknowledged.size,
      lost: lost.size,
      duplicates,
      bound: 0,
      broken,
      notes: [
        `while it stood still ${accepted} were accepted, and ${arrived} reached another sink; ${asked} questions, the slowest took ${slowest.toFixed(0)} ms`,
      ],
    }
  },
}
