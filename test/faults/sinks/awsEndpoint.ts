/**
 * `bun awsEndpoint.ts PORT FILE`: an SQS, EventBridge and S3 endpoint that appends the
 * bodies it is sent to a file before it answers, so that a kill loses none that it
 * has answered for. moto keeps all in memory: killed, it would have lost them.
 */
import { appendFileSync } from "node:fs"
import { gunzipSync } from "node:zlib"

interface Sent {
  readonly Id?: string
  readonly MessageBody?: string
  readonly Detail?: string
}

const [port, file = ""] = process.argv.slice(2)

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  fetch: async (request) => {
    if (request.method === "PUT") {
      appendFileSync(file, gunzipSync(await request.bytes()))
      await Bun.sleep(2)
      return new Response(null, { headers: { etag: '"e"' } })
    }
    const action = String(request.headers.get("x-amz-target")).replace(/^.*\./, "")
    if (action === "DescribeEventBus") return Response.json({ Name: "events" })
    const { Entries = [] } = (await request.json()) as { readonly Entries?: ReadonlyArray<Sent> }
    appendFileSync(file, Entries.map(({ MessageBody, Detail }) => `${MessageBody ?? Detail}\n`).join(""))
    // A kill may come in between. Then the file has events whose sender got no answer.
    await Bun.sleep(2)
    return action === "PutEvents"
      ? Response.json({ FailedEntryCount: 0, Entries: Entries.map((_, at) => ({ EventId: String(at) })) })
      : Response.json({ Successful: Entries.map(({ Id }) => ({ Id })) })
  },
})
