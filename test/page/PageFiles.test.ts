import { describe, expect, test } from "bun:test"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import * as PageFiles from "../../src/page/PageFiles.ts"

const handle = PageFiles.before(() => new Response("the API", { status: 418 }))
const ask = async (path: string, encoding = "", method = "GET") =>
  handle(new Request(`http://127.0.0.1:9080${path}`, { method, headers: { "accept-encoding": encoding } }))
const bytes = async (response: Response) => Buffer.from(await response.arrayBuffer())
const linked = async () => {
  const text = await (await ask("/")).text()
  return [...text.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = ""]) => new URL(path, "http://relay/").pathname)
}

describe("the page's files", () => {
  test("are a document and its linked files: a script, a style and an icon, none of them inline", async () => {
    const page = await ask("/")
    expect(page.status).toBe(200)
    expect(await page.text()).not.toMatch(/<style|<script(?![^>]* src=)| on\w+=| style=|https?:/)
    const types = await Promise.all((await linked()).map(async (path) => (await ask(path)).headers.get("content-type")))
    expect(types.map((type) => type?.split(";")[0])).toEqual(["image/svg+xml", "text/css", "text/javascript"])
  })

  test("have a policy that allows nothing inline and nothing from other sites", async () => {
    for (const path of ["/", ...(await linked())]) {
      const policy = (await ask(path)).headers.get("content-security-policy") ?? ""
      expect(policy).toStartWith("default-src 'none'; script-src 'self'; style-src 'self'; ")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).not.toMatch(/unsafe|https?:|\*/)
    }
  })

  test("are compressed as the browser can take it, and less than 100 KB in all", async () => {
    let all = 0
    for (const path of ["/", ...(await linked())]) {
      const plain = await bytes(await ask(path))
      const brotli = await ask(path, "gzip, deflate, br, zstd")
      const gzip = await ask(path, "gzip")
      expect([brotli.headers.get("content-encoding"), gzip.headers.get("content-encoding")]).toEqual(["br", "gzip"])
      const packed = await bytes(gzip)
      expect(brotliDecompressSync(await bytes(brotli)).equals(plain)).toBe(true)
      expect(gunzipSync(packed).equals(plain)).toBe(true)
      all += packed.byteLength
    }
    expect(all).toBeLessThan(100_000)
  })

  test("are kept by the browser for ever under the name of their content, but for the document", async () => {
    expect((await ask("/")).headers.get("cache-control")).toBe("no-cache")
    for (const path of await linked()) {
      expect(path).toMatch(/^\/page-[0-9a-f]{12}\.\w+$/)
      expect((await ask(path)).headers.get("cache-control")).toContain("immutable")
    }
  })

  test("leave all other paths to the admin API", async () => {
    const answers = [
      await ask("/api/v1/status"),
      await ask("/healthz"),
      await ask("/", "", "POST"),
      await ask("/page.js"),
    ]
    expect(answers.map(({ status }) => status)).toEqual([418, 418, 418, 418])
  })
})
