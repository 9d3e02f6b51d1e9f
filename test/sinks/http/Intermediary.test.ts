/** Answers of proxies and CDNs in front of a receiver, from public reports. */
import { describe, expect, test } from "bun:test"
import { mkdtempSync, readFileSync } from "node:fs"
import { createSecureServer, createServer } from "node:http2"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import * as HttpTransport from "../../../src/runtime/HttpTransport.ts"
import { type Receiver, reasonOf, reasonOfFailure } from "../../../src/sinks/http/HttpAnswer.ts"
import { lacking, makeAuthority } from "../../lib/authority.ts"
import { suiteUnless } from "../../lib/lacking.ts"

const receiver: Receiver = {
  name: "POST https://x.example",
  origin: "https://x.example",
  overrides: {},
  isTemplated: false,
}

const told = (status: number, headers: Record<string, string>, text: string, more: Partial<Receiver> = {}) => {
  const reason = reasonOf({ status, headers: new Headers(headers) }, () => text, { ...receiver, ...more }, { now: 0 })
  return reason === undefined ? "delivered" : `${reason._tag}: ${reason.message}`
}

const html = { "content-type": "text/html; charset=utf-8" }
const cloudflare = { server: "cloudflare" }

describe("an answer that is not the receiver's", () => {
  for (const [what, status, headers, text, says] of [
    [
      "Cloudflare blocks the client",
      403,
      cloudflare,
      "error code: 1010",
      /^SinkMisconfigured: .*Cloudflare, in front of the service, blocks this machine \(error 1010\)/,
    ],
    ["Cloudflare blocks the address", 403, cloudflare, "error code: 1006", /^SinkMisconfigured: .*\(error 1006\)/],
    [
      "Cloudflare limits the rate",
      429,
      cloudflare,
      "error code: 1015",
      /^SinkThrottled: .*limits this machine's requests/,
    ],
    [
      "Cloudflare asks for a browser",
      403,
      { ...cloudflare, ...html },
      "<!DOCTYPE html><title>Just a moment...</title>",
      /^SinkMisconfigured: .*Cloudflare, in front of the service, blocks/,
    ],
    [
      "Cloudflare finds no origin",
      522,
      cloudflare,
      "error code: 522",
      /^DeliveryFailed: .*Cloudflare, in front of the service, can't reach/,
    ],
    [
      "Cloudflare passes on the receiver's own refusal",
      403,
      cloudflare,
      '{"error":"forbidden"}',
      /^SinkMisconfigured: .*check the credentials/,
    ],
    [
      "CloudFront blocks the request",
      403,
      { server: "CloudFront", ...html },
      "<!DOCTYPE HTML><html><title>ERROR: The request could not be satisfied</title></html>",
      /^SinkMisconfigured: .*CloudFront, in front of the service, blocks/,
    ],
    ["CloudFront finds no origin", 504, { server: "CloudFront" }, "", /^DeliveryFailed: .*can't reach/],
    [
      "a page to sign in",
      200,
      html,
      '<html><form><input name="p" type="password"></form></html>',
      /^SinkMisconfigured: .*a person to sign in/,
    ],
    [
      "a page with that title",
      200,
      html,
      "<!doctype html><title>Sign in to your account</title>",
      /^SinkMisconfigured/,
    ],
    ["a page of the receiver's own", 200, html, "<html><body>thank you</body></html>", /^delivered/],
  ] as const) {
    test(`is recognized: ${what}`, () => {
      expect(told(status, headers, text)).toMatch(says)
    })
  }

  test("has the meaning in classify", () => {
    expect(told(200, html, "<html><input type=password>", { overrides: { "2xx": "delivered" } })).toBe("delivered")
  })

  test("is any page, if a service never answers with pages", () => {
    expect(told(200, {}, "<html>welcome</html>", { meaning: () => undefined })).toMatch(/^SinkMisconfigured/)
  })
})

const failureOf = async (url: string, ca?: string): Promise<string> => {
  const ask = Effect.scoped(
    Effect.flatMap(HttpTransport.make(ca === undefined ? undefined : { ca: readFileSync(ca, "utf8") }), (fetch) =>
      Effect.promise(() =>
        fetch(url, { method: "POST", body: "{}" }).then(
          () => "answered",
          (error) => error,
        ),
      ),
    ),
  )
  return reasonOfFailure(await Effect.runPromise(ask), { name: "POST x", origin: new URL(url).origin }).message
}

suiteUnless(lacking, "a receiver that speaks HTTP/2 only", () => {
  test("is recognized, with TLS and without", async () => {
    const authority = makeAuthority(mkdtempSync(join(tmpdir(), "relay-http2-")))
    const { pem } = authority.issue("server", "IP:127.0.0.1")
    for (const server of [createSecureServer({ ...pem, allowHTTP1: false }), createServer()]) {
      server.on("error", () => {}).on("sessionError", () => {})
      const port = await new Promise<number>((resolve) =>
        server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
      )
      const scheme = "setSecureContext" in server ? "https" : "http"
      expect(await failureOf(`${scheme}://127.0.0.1:${port}/`, authority.ca)).toMatch(/HTTP\/2 only/)
      server.close()
    }
  })
})
