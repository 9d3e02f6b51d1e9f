/** The part of `oidc-provider` that the tests use. The package has no types. */
declare module "oidc-provider" {
  import type { RequestListener } from "node:http"

  interface Context {
    readonly oidc: { readonly body?: Readonly<Record<string, string>> }
  }
  interface ResourceServer {
    readonly scope: string
    readonly audience: string
    readonly accessTokenTTL: number
    readonly accessTokenFormat: "jwt"
  }
  interface Configuration {
    readonly clients: ReadonlyArray<Readonly<Record<string, unknown>>>
    readonly jwks: { readonly keys: ReadonlyArray<object> }
    readonly scopes: ReadonlyArray<string>
    readonly cookies: { readonly keys: ReadonlyArray<string> }
    readonly extraTokenClaims: () => Readonly<Record<string, unknown>>
    readonly features: {
      readonly devInteractions: { readonly enabled: boolean }
      readonly clientCredentials: { readonly enabled: boolean }
      readonly resourceIndicators: {
        readonly enabled: boolean
        readonly defaultResource: (context: Context) => string
        readonly getResourceServerInfo: (context: Context, resource: string) => ResourceServer
      }
    }
  }
  export default class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): RequestListener
    on(event: "client_credentials.issued", listener: () => void): this
  }
}
