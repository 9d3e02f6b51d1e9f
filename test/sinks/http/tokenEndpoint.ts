/**
 * The token endpoint of an authorization server that supports client credentials only. It runs until its scope closes.
 */
import type { ServerResponse } from "node:http"
import { Effect } from "effect"
import { type Received, serve } from "../receiver.ts"

export const client = { id: "relay", secret: "canary-client-secret" }

const json = (response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))

/** Whether a request has the client's credentials, in a header or in the body. */
const isClient = ({ headers, body }: Received): boolean => {
  const basic = `Basic ${Buffer.from(`${client.id}:${encodeURIComponent(client.secret).replaceAll("-", "%2D")}`).toString("base64")}`
  const form = new URLSearchParams(Buffer.from(body).toString())
  return (
    headers.authorization === basic ||
    (form.get("client_id") === client.id && form.get("client_secret") === client.secret)
  )
}

/**
 * A token endpoint whose numbered tokens live for `lifetime` seconds. If `answer` returns true, it has answered itself.
 */
export const tokenEndpoint = Effect.fnUntraced(function* ({
  lifetime = 3_600,
  answer = () => false,
}: {
  readonly lifetime?: number | null
  readonly answer?: (response: ServerResponse, request: Received) => boolean
} = {}) {
  const requests: Array<Received> = []
  const { url } = yield* serve((request, response) => {
    requests.push(request)
    if (answer(response, request)) return
    if (!isClient(request)) {
      json(response, 401, { error: "invalid_client" }, { "www-authenticate": 'Basic realm="tokens"' })
      return
    }
    json(response, 200, {
      access_token: `canary-token-${requests.length}`,
      token_type: "Bearer",
      ...(lifetime !== null && { expires_in: lifetime }),
    })
  })
  return { tokenUrl: `${url}/oauth2/token`, requests }
})
