/**
 * Recognizes answers that are not the receiver's own: a CDN in front of it that
 * blocks this machine or can't reach the receiver, a server that refuses the
 * connection as it is, and a web page such as a sign-in page, which comes with
 * status 200.
 *
 * Sources: Cloudflare, "Troubleshooting: Cloudflare 1xxx errors" and "5xx
 * errors"; the error pages of CloudFront, Akamai, nginx (`ngx_http_special_response.c`),
 * Apache and Go's `net/http`; Amazon API Gateway, "Gateway response types".
 */
import type { Documented } from "./HttpVerdict.ts"

interface Answer {
  readonly status: number
  readonly headers: Pick<Headers, "get">
  readonly text: () => string
}

const cdns: ReadonlyArray<readonly [server: RegExp, name: string]> = [
  [/^cloudflare/i, "Cloudflare"],
  [/^cloudfront/i, "CloudFront"],
  [/^akamai/i, "Akamai"],
]

const isPage = (text: string): boolean => /^\s*(<!doctype html|<html)/i.test(text)

const ofCdn = (name: string, status: number, text: string): Documented | undefined => {
  const [, code] = /\berror code: (1\d{3})\b/i.exec(text) ?? []
  const said = code === undefined ? "" : ` (error ${code})`
  if (code === "1015") {
    return { verdict: "throttle", because: `${name}, in front of the service, limits this machine's requests${said}` }
  }
  if (code !== undefined || (status === 403 && isPage(text))) {
    return {
      verdict: "misconfigured",
      because: `${name}, in front of the service, blocks this machine${said}; the service's operator can allow its address, or send from another address`,
    }
  }
  const isBehind = name === "Cloudflare" ? status >= 520 && status <= 530 : status === 502 || status === 504
  return isBehind
    ? { verdict: "retry", because: `${name}, in front of the service, can't reach the service` }
    : undefined
}

/** Words of nginx, Apache and Go for a connection that they refuse, with 400 and before they read the request. */
const ofConnection: ReadonlyArray<readonly [words: RegExp, because: string]> = [
  [
    /plain HTTP request was sent to HTTPS port|HTTP request to an HTTPS server|plain HTTP to an SSL-enabled server port/i,
    'it wants TLS at this port; write "https" in "url"',
  ],
  [/No required SSL certificate was sent/i, 'it wants a client certificate; set "certificate" and "key" in "tls"'],
  [/The SSL certificate error/i, 'it does not accept the client certificate; correct "certificate" and "key" in "tls"'],
]

/** Amazon's API Gateway answers so if it does not know the path and method, even if none of its paths needs a token. */
const isUnknownPath = (status: number, headers: Answer["headers"]): boolean =>
  status === 403 && /^MissingAuthenticationTokenException/.test(headers.get("x-amzn-errortype") ?? "")

/** A page that wants a person to sign in; any page, if the receiver is a service that answers with none. */
const isSignIn = (text: string, isService: boolean): boolean =>
  isPage(text) && (isService || /<input[^>]+type\s*=\s*["']?password|<title>[^<]*\b(sign|log) ?in\b/i.test(text))

/** The meaning of an answer of something in front of the receiver; `undefined` if it may be the receiver's own. */
export const meaningOf = ({ status, headers, text }: Answer, isService: boolean): Documented | undefined => {
  const refused = status === 400 ? ofConnection.find(([words]) => words.test(text())) : undefined
  if (refused !== undefined) return { verdict: "misconfigured", because: refused[1] }
  if (isUnknownPath(status, headers)) {
    return {
      verdict: "misconfigured",
      because: 'API Gateway probably has no such path or method; check "url" and "method"',
    }
  }
  const server = headers.get("server") ?? ""
  const name = status >= 400 ? cdns.find(([pattern]) => pattern.test(server))?.[1] : undefined
  if (name !== undefined) return ofCdn(name, status, text())
  const mayBePage = isService || /html/i.test(headers.get("content-type") ?? "")
  return status >= 200 && status < 300 && mayBePage && isSignIn(text(), isService)
    ? {
        verdict: "misconfigured",
        because:
          'with a web page, probably for a person to sign in, so the event was not taken; check "url", and what stands in front of the service',
      }
    : undefined
}
