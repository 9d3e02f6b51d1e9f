/**
 * A TCP proxy that measures conversations, and then breaks one at a byte of
 * either direction: closes, resets, half-closes, freezes it, or puts garbage
 * where the byte was.
 */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** `up`: what the client sends; `down`: what it is answered. */
export type Direction = "up" | "down"
export const directions: ReadonlyArray<Direction> = ["up", "down"]

/** `half`: the receiver of the bytes hears that no more come, and may go on sending. */
export type Kind = "close" | "reset" | "half" | "freeze" | "garbage"
export const kinds: ReadonlyArray<Kind> = ["close", "reset", "half", "garbage", "freeze"]

export interface Cut {
  readonly direction: Direction
  /** So many bytes pass before it. */
  readonly at: number
  readonly kind: Kind
  /** How many connections it breaks; later ones pass. */
  readonly times: number
}

interface Conversation {
  readonly ends: Readonly<Record<Direction, Socket>>
  readonly passed: Record<Direction, number>
  frozen: boolean
  /** The direction that ended for its receiver. */
  deaf: Direction | undefined
}

const garbage = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, at) => (at * 193 + 251) % 256))

export class CutProxy {
  readonly #target: () => number
  readonly #open = new Set<Conversation>()
  readonly #server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => this.#take(client))
  #cut: Cut | undefined
  /** How many conversations it broke since it was told to. */
  broken = 0
  /** The longest conversation in each direction, in bytes. */
  longest: Record<Direction, number> = { up: 0, down: 0 }

  /** It passes on to the port of loopback that `target` gives. */
  constructor(target: () => number) {
    this.#target = target
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Breaks from now on, beginning with fresh connections: those that there are end. */
  arm(cut: Cut): void {
    this.behave()
    this.reset()
    this.#cut = cut
    this.broken = 0
  }

  /** Ends the connections that there are, and measures those that come. */
  reset(): void {
    this.longest = { up: 0, down: 0 }
    for (const { ends } of this.#open) for (const end of Object.values(ends)) end.resetAndDestroy()
  }

  /** Passes all again. What is frozen goes on. */
  behave(): void {
    this.#cut = undefined
    for (const one of this.#open) {
      if (!one.frozen) continue
      one.frozen = false
      for (const end of Object.values(one.ends)) end.resume()
      if (Object.values(one.ends).some(({ destroyed }) => destroyed)) this.#end(one)
    }
  }

  async close(): Promise<void> {
    for (const { ends } of this.#open) for (const end of Object.values(ends)) end.destroy()
    this.#server.close()
    await once(this.#server, "close")
  }

  #take(client: Socket): void {
    const upstream = connect({ port: this.#target(), host: "127.0.0.1", noDelay: true, allowHalfOpen: true })
    const one: Conversation = {
      ends: { up: upstream, down: client },
      passed: { up: 0, down: 0 },
      frozen: false,
      deaf: undefined,
    }
    this.#open.add(one)
    this.#pass(one, "up", client, upstream)
    this.#pass(one, "down", upstream, client)
  }

  #end(one: Conversation): void {
    this.#open.delete(one)
    for (const end of Object.values(one.ends)) end.destroySoon()
  }

  #pass(one: Conversation, direction: Direction, from: Socket, to: Socket): void {
    from.on("error", () => to.destroy())
    // A frozen conversation hears of it once it goes on.
    from.on("close", () => {
      if (!one.frozen) this.#end(one)
    })
    from.on("end", () => {
      if (!one.frozen) to.end()
    })
    to.on("drain", () => {
      if (!one.frozen) from.resume()
    })
    from.on("data", (chunk: Buffer) => {
      if (one.deaf === direction) return
      const before = one.passed[direction]
      const cut = this.#cut
      const isHere = cut?.direction === direction && this.broken < cut.times
      if (cut === undefined || !isHere || before + chunk.length < cut.at || before > cut.at) {
        one.passed[direction] += chunk.length
        this.longest[direction] = Math.max(this.longest[direction], one.passed[direction])
        if (!to.write(chunk)) from.pause()
        return
      }
      this.broken += 1
      const kept = cut.at - before
      if (kept > 0) to.write(chunk.subarray(0, kept))
      one.passed[direction] += kept
      this.#break(one, cut.kind, direction, chunk.subarray(kept))
    })
  }

  #break(one: Conversation, kind: Kind, direction: Direction, rest: Buffer): void {
    const { up, down } = one.ends
    switch (kind) {
      case "close":
        up.destroySoon()
        down.destroySoon()
        return
      case "reset":
        up.resetAndDestroy()
        down.resetAndDestroy()
        return
      case "half":
        one.deaf = direction
        one.ends[direction].end()
        return
      case "garbage":
        one.passed[direction] += 1
        one.ends[direction].write(garbage(64))
        one.ends[direction].write(rest)
        return
      case "freeze":
        one.frozen = true
        up.pause()
        down.pause()
        // It comes once the network does.
        ;(direction === "up" ? down : up).unshift(rest)
    }
  }
}
