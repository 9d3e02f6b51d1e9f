/**
 * `bun --preload planted.ts …` with `PLANTED=PORT,KIND` plants a bug in the client library that connects to that port
 * of this machine. The bug is an exception in a listener, a rejection that nobody handles, or an `'error'` without a
 * listener. SIGUSR2 throws an exception that belongs to no library.
 */
import { EventEmitter } from "node:events"
import { Socket } from "node:net"

const [port, kind] = (process.env.PLANTED ?? "").split(",")
const connect = Socket.prototype.connect

const plant = (socket: Socket): void => {
  // The error is made while the library connects, so that the library's frames are in its stack, as in a real bug.
  const bug = new Error("a planted bug")
  socket.once("connect", () => {
    if (kind === "rejection") void Promise.reject(bug)
    // Bun would emit the listener's exception as an error of the socket.
    else
      setImmediate(() => {
        if (kind === "error") new EventEmitter().emit("error", new Error("a planted bug"))
        else throw new Error("a planted bug")
      })
  })
}

Object.assign(Socket.prototype, {
  connect(this: Socket, ...args: Parameters<typeof connect>): Socket {
    if (JSON.stringify(args[0] ?? "").includes(`"port":${port}`) || String(args[0]) === port) plant(this)
    return connect.apply(this, args)
  },
})

process.on("SIGUSR2", () => {
  throw new Error("a planted bug of nobody")
})
