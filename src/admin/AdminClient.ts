/** The admin API from the other side: what the command line speaks. No proxy sees its token. */
import { Effect, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import type { RelayConfig } from "../config/Config.ts"
import { goDirect } from "../runtime/Environment.ts"
import { Api } from "./Api.ts"

/** An address for all interfaces is none to call. */
const callable = (host: string): string => {
  if (host === "0.0.0.0" || host === "") return "127.0.0.1"
  if (host === "::") return "[::1]"
  return host.includes(":") ? `[${host}]` : host
}

export const urlOf = ({ listen }: RelayConfig["admin"]): string => `http://${callable(listen.host)}:${listen.port}`

export const make = (admin: RelayConfig["admin"]) => {
  goDirect([callable(admin.listen.host)])
  return HttpApiClient.make(Api, {
    baseUrl: urlOf(admin),
    transformClient: HttpClient.mapRequest((request) =>
      admin.token === undefined ? request : HttpClientRequest.bearerToken(request, Redacted.value(admin.token)),
    ),
  }).pipe(Effect.provide(FetchHttpClient.layer))
}
export type Client = Effect.Success<ReturnType<typeof make>>
