/**
 * `bun --preload successor.ts …` with `SUCCESSOR=before|opening|opened|silent`: a second process of a restart that is
 * killed before the journal is free, while it opens the journal, or once the journal is open; or that opens the
 * journal and never says so.
 *
 * **Gotcha.** Bun keeps messages only until the first listener is added. So this file listens when the relay does:
 * the relay loads later, and would miss the first message.
 */
const when = process.env.SUCCESSOR

const end = () => process.kill(process.pid, "SIGKILL")

if (process.env.RELAY_SUCCESSOR !== undefined && process.send !== undefined) {
  const tagOf = (message: unknown): unknown => (message as { readonly _tag?: unknown })._tag
  const endAt = (message: unknown) => {
    if (when === "before" && tagOf(message) === "facts") end()
    if (when === "opening" && tagOf(message) === "released") setImmediate(end)
  }
  const on = process.on.bind(process)
  process.on = ((event: "message", listener: NodeJS.MessageListener) => {
    if (event === "message") on(event, endAt)
    return on(event, listener)
  }) as typeof process.on
  const send = process.send.bind(process)
  process.send = ((message: unknown) => {
    if (tagOf(message) !== "opened") return send(message)
    if (when === "opened") end()
    return true
  }) as typeof process.send
}
