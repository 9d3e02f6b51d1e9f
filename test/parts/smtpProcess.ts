/**
 * An SMTP server on loopback that writes each mail into a file as a line before it answers: `bun
 * test/parts/smtpProcess.ts PORT FILE`.
 */
import { closeSync, openSync, writeSync } from "node:fs"
import process from "node:process"
import PostalMime from "postal-mime"
import { SMTPServer } from "smtp-server"

const [port, file = ""] = process.argv.slice(2)
const out = openSync(file, "a")

const server = new SMTPServer({
  authOptional: true,
  disabledCommands: ["STARTTLS"],
  disableReverseLookup: true,
  onData: (stream, _, done) => {
    const chunks: Array<Buffer> = []
    stream.on("data", (chunk) => chunks.push(chunk))
    stream.on("end", async () => {
      const { messageId, subject, text } = await PostalMime.parse(Buffer.concat(chunks))
      writeSync(out, `${JSON.stringify({ messageId, subject, text })}\n`)
      done()
    })
  },
})
server.on("error", () => {})
server.listen(Number(port), "127.0.0.1", () => process.stdout.write("listening\n"))
// Standard input is a pipe from the parent process, and ends with it.
process.stdin.on("end", () => {
  closeSync(out)
  process.exit(0)
})
process.stdin.resume()
