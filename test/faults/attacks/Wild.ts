/**
 * A receiver over bare TCP. It answers honest events with 204, and hostile events with whatever a case writes into the
 * socket. One server has many sinks, told apart by the first segment of the path.
 */
import { createServer, type Server, type Socket } from "node:net"

/** A receiver's behaviour towards a hostile event; `attempt` counts from 1. */
export type Misdeed = (socket: Socket, attempt: number) => void

const end = Buffer.from("\r\n\r\n")
export const ok = "HTTP/1.1 204 No Content\r\n\r\n"

export class Wild {
  /** Honest ids that were taken, by sink. */
  readonly honest = new Map<string, Set<string>>()
  /** Attempts at the hostile event, by sink. */
  readonly attempts = new Map<string, number>()
  /** Paths that nobody should ask for. */
  readonly strange: Array<string> = []
  /** Set to answer hostile events like honest ones. */
  healed = false
  readonly #sockets = new Set<Socket>()
  readonly #misdeeds: ReadonlyMap<string, Misdeed>
  readonly #taken: Readonly<Record<string, string>>
  #server: Server | undefined
  port = 0

  /** `taken` has the answers of sinks to accepted events, if not 204. */
  constructor(misdeeds: ReadonlyMap<string, Misdeed>, taken: Readonly<Record<string, string>>) {
    this.#misdeeds = misdeeds
    this.#taken = taken
  }

  async listen(): Promise<void> {
    const server = createServer((socket) => this.#serve(socket))
    this.#server = server
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const address = server.address()
    this.port = typeof address === "object" && address !== null ? address.port : 0
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server?.close()
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket)
    let received = Buffer.alloc(0)
    socket.on("error", () => {})
    socket.on("close", () => this.#sockets.delete(socket))
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      for (;;) {
        const head = received.indexOf(end)
        if (head === -1) return
        const text = received.subarray(0, head).toString("latin1")
        const length = Number(/^content-length: (\d+)$/im.exec(text)?.[1] ?? 0)
        if (received.length < head + end.length + length) return
        received = received.subarray(head + end.length + length)
        this.#answer(socket, text)
      }
    })
  }

  #answer(socket: Socket, head: string): void {
    const [, method = "", sink = ""] = /^(\S+) \/([^/ ]*)/.exec(head) ?? []
    const id = /^x-relay-event-id: (.+)$/im.exec(head)?.[1] ?? ""
    const misdeed = this.#misdeeds.get(sink)
    if (misdeed === undefined && sink !== "steady") this.strange.push(head.split("\r\n")[0] ?? "")
    const isHostile = id.startsWith("evtBad")
    if (method === "HEAD") {
      socket.write(ok)
      return
    }
    if (isHostile && !this.healed && misdeed !== undefined) {
      const attempt = (this.attempts.get(sink) ?? 0) + 1
      this.attempts.set(sink, attempt)
      misdeed(socket, attempt)
      return
    }
    const honest = this.honest.get(sink) ?? new Set()
    this.honest.set(sink, honest.add(id))
    socket.write(this.#taken[sink] ?? ok)
  }
}

/** Writes `first`, then drips `what`. */
export const sayAndDrip = (socket: Socket, first: string, what: string, every: number): void => {
  socket.write(first)
  drip(socket, what, every)
}

/** Writes `what` every `every` milliseconds for as long as the socket lives. */
export const drip = (socket: Socket, what: string | Uint8Array, every: number): void => {
  const timer = setInterval(() => {
    if (socket.destroyed || !socket.writable) clearInterval(timer)
    else socket.write(what)
  }, every)
  socket.on("close", () => clearInterval(timer))
}

/** Writes `first`, and then `what` without end, as fast as it is read. */
export const pour = (socket: Socket, first: string, what: string | Uint8Array): void => {
  socket.write(first)
  const more = () => {
    while (!socket.destroyed && socket.writable && socket.write(what));
  }
  socket.on("drain", more)
  more()
}
