/** The client of the admin API, which the command line uses. Its token never passes through a proxy. */
import { Effect, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as Address from "../config/Address.ts"
import { type AdminConfig, tokensOf } from "../config/Config.ts"
import { goDirect } from "../runtime/Environment.ts"
import { userAgent } from "../runtime/HttpTransport.ts"
import { Api } from "./api/Api.ts"

/** Returns the URL of the admin API for this machine. */
export const urlOf = ({ listen }: AdminConfig): string => `http://${Address.format(Address.reachable(listen))}`

/** Makes a client of the admin API, with the first token of the config. */
export const make = (admin: AdminConfig) => {
  const [token] = tokensOf(admin)
  goDirect([new URL(urlOf(admin)).hostname])
  return HttpApiClient.make(Api, {
    baseUrl: urlOf(admin),
    transformClient: HttpClient.mapRequest((request) => {
      const own = HttpClientRequest.setHeader(request, "user-agent", userAgent)
      return token === undefined ? own : HttpClientRequest.bearerToken(own, Redacted.value(token.value))
    }),
  }).pipe(Effect.provide(FetchHttpClient.layer))
}
export type Client = Effect.Success<ReturnType<typeof make>>
