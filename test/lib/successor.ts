/**
 * `bun --preload successor.ts …` with `SUCCESSOR=before|opening|opened|silent`: a second process of a restart that is
 * killed before the journal is free, while it opens the journal, or once the journal is open; or that opens the
 * journal and never says so.
 */
const when = process.env.SUCCESSOR

const end = () => process.kill(process.pid, "SIGKILL")

if (process.env.RELAY_SUCCESSOR !== undefined && process.send !== undefined) {
  const send = process.send.bind(process)
  const tagOf = (message: unknown): unknown => (message as { readonly _tag?: unknown })._tag
  process.on("message", (message) => {
    if (when === "before" && tagOf(message) === "facts") end()
    if (when === "opening" && tagOf(message) === "released") setImmediate(end)
  })
  process.send = ((message: unknown) => {
    if (tagOf(message) !== "opened") return send(message)
    if (when === "opened") end()
    return true
  }) as typeof process.send
}
