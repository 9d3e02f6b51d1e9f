/**
 * A disk of 64 MiB for a journal. If mounting is allowed, it is a real file system in memory, in the relay's own mount
 * namespace, so that nothing is left behind. Otherwise the shim simulates it.
 */
import { rmSync, statfsSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { Relay } from "../../lib/relay.ts"
import { mounting, namespace } from "./Mounts.ts"
import type { Subject } from "./Subject.ts"
import { Shim } from "./shim/Shim.ts"

export interface SmallDisk {
  readonly what: string
  readonly start: () => Promise<Relay>
  /** Another program takes the space that is left, or gives it back. */
  readonly fill: () => void
  readonly giveBack: () => void
}

const mebibyte = 1024 * 1024
const size = 64 * mebibyte
const mount = "mount -t tmpfs -o size=64m,mode=700 relay-faults"

const mounted = (subject: Subject, words: ReadonlyArray<string>): SmallDisk => {
  const place = dirname(subject.journal)
  let seen = place
  const filler = () => join(seen, "another-program")
  return {
    what: "a tmpfs",
    start: async () => {
      const relay = await subject.start({ after: mounting(words, `mkdir -p '${place}' && ${mount} '${place}'`) })
      seen = `/proc/${relay.pid}/root${place}`
      return relay
    },
    fill: () => {
      const { bavail, bsize } = statfsSync(seen)
      try {
        writeFileSync(filler(), Buffer.alloc(bavail * bsize, 1))
      } catch (error) {
        // The relay wrote meanwhile: then the rest is taken too.
        if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error
      }
    },
    giveBack: () => rmSync(filler()),
  }
}

const pretended = (subject: Subject): SmallDisk => {
  const shim = new Shim(subject.directory, subject.journal)
  shim.disk(size, 0)
  return {
    what: "a pretended disk: mounting is not allowed here",
    start: () => subject.start({ env: shim.env }),
    fill: () => shim.disk(size, size),
    giveBack: () => shim.disk(size, 0),
  }
}

export const smallDisk = (subject: Subject): SmallDisk => {
  const words = namespace(`${mount} /mnt`)
  return words === undefined ? pretended(subject) : mounted(subject, words)
}
