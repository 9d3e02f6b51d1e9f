/**
 * A TCP proxy that measures conversations, and then breaks one at a byte of either direction. It closes, resets,
 * half-closes or freezes the conversation, or replaces the byte by garbage.
 */
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** `up`: from the client; `down`: from the server. */
export type Direction = "up" | "down"
export const directions: ReadonlyArray<Direction> = ["up", "down"]

/** `half`: the receiver of the bytes gets their end, and may continue to send. */
export type Kind = "close" | "reset" | "half" | "freeze" | "garbage"
export const kinds: ReadonlyArray<Kind> = ["close", "reset", "half", "garbage", "freeze"]

export interface Cut {
  readonly direction: Direction
  /** Number of bytes that pass before it. */
  readonly at: number
  readonly kind: Kind
  /** Number of connections that it breaks. Later ones pass. */
  readonly times: number
}

interface Conversation {
  readonly ends: Readonly<Record<Direction, Socket>>
  readonly passed: Record<Direction, number>
  frozen: boolean
  /** The direction whose receiver got the end. */
  deaf: Direction | undefined
}

const garbage = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, at) => (at * 193 + 251) % 256))

export class CutProxy {
  readonly #target: () => number
  readonly #open = new Set<Conversation>()
  readonly #server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => this.#take(client))
  #cut: Cut | undefined
  /** Number of conversations broken since `arm`. */
  broken = 0
  /** The longest conversation in each direction, in bytes. */
  longest: Record<Direction, number> = { up: 0, down: 0 }

  /** `target` returns the port on loopback to connect to. */
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

  /** Breaks conversations from now on. Ends the open connections first. */
  arm(cut: Cut): void {
    this.behave()
    this.reset()
    this.#cut = cut
    this.broken = 0
  }

  /** Ends the open connections, and measures new ones. */
  reset(): void {
    this.longest = { up: 0, down: 0 }
    for (const { ends } of this.#open) for (const end of Object.values(ends)) end.resetAndDestroy()
  }

  /** Passes everything again. Frozen conversations continue. */
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
    // A frozen conversation learns of it when it continues.
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
        // The rest arrives when the conversation continues.
        ;(direction === "up" ? down : up).unshift(rest)
    }
  }
}
