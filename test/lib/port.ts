import { once } from "node:events"
import { createServer } from "node:net"

/** Below the ports of outgoing connections, because such a connection could take the port while nobody listens. */
const range = { from: 12_000, to: 32_000 }

/** Ports that were already returned. The caller may not listen yet. */
const given = new Set<number>()

/** A port that is free, and stays so while a relay on it is restarted. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = range.from + Math.floor(Math.random() * (range.to - range.from))
    if (given.has(port)) continue
    const server = createServer()
    const listening = once(server, "listening").then(
      () => true,
      () => false,
    )
    server.listen(port, "127.0.0.1")
    if (!(await listening)) continue
    server.close()
    await once(server, "close")
    if (given.has(port)) continue
    given.add(port)
    return port
  }
}
