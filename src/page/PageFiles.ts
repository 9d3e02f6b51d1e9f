/**
 * Serves the page of the admin server: a document, a script, a style and an icon, all embedded in the program. Other
 * requests go to the admin API. The files contain no data, so they need no token. The page gets its data from the API
 * with the token that the user types. The files have no inline script or style, and their content security policy
 * allows nothing else.
 */
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import type { Handler } from "../runtime/RequestGuard.ts"
import style from "./built/page.css.txt" with { type: "text" }
import script from "./built/page.js.txt" with { type: "text" }

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#1f5fbf"/><path d="M7 16h6l3-7 4 14 3-7h3" fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round"/></svg>`

/**
 * By its content, so that it may be kept for ever and is never an older relay's. It is relative to the page, so that a
 * proxy may serve the page below a path.
 */
const named = (text: string, ending: string): string =>
  `page-${createHash("sha256").update(text).digest("hex").slice(0, 12)}.${ending}`

const paths = { script: named(script, "js"), style: named(style, "css"), icon: named(icon, "svg") }

const document = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>relay</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="${paths.icon}">
<link rel="stylesheet" href="${paths.style}">
<script type="module" src="${paths.script}"></script>
</head>
<body>
<div id="page"></div>
<noscript>This page needs JavaScript. The same is on the command line: relay status</noscript>
</body>
</html>
`

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ")

const secure = {
  "content-security-policy": policy,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
}

const encodings = {
  br: (text: string) => promisify(brotliCompress)(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  gzip: (text: string) => promisify(gzip)(text, { level: constants.Z_BEST_COMPRESSION }),
  identity: async (text: string) => Buffer.from(text),
} as const
type Encoding = keyof typeof encodings

const encodingFor = (accepted: string): Encoding =>
  /\bbr\b/.test(accepted) ? "br" : /\bgzip\b/.test(accepted) ? "gzip" : "identity"

interface File {
  readonly text: string
  readonly type: string
  readonly cache: string
}

const forever = "public, max-age=31536000, immutable"
const files = new Map<string, File>([
  ["/", { text: document, type: "text/html; charset=utf-8", cache: "no-cache" }],
  [`/${paths.script}`, { text: script, type: "text/javascript; charset=utf-8", cache: forever }],
  [`/${paths.style}`, { text: style, type: "text/css; charset=utf-8", cache: forever }],
  [`/${paths.icon}`, { text: icon, type: "image/svg+xml", cache: forever }],
])

/** Compressed at the first request, so that a relay whose page nobody opens doesn't pay for it. */
const encoded = new Map<string, Promise<Buffer>>()
const bytesOf = (path: string, { text }: File, encoding: Encoding): Promise<Buffer> => {
  const key = `${encoding} ${path}`
  const found = encoded.get(key) ?? encodings[encoding](text)
  encoded.set(key, found)
  return found
}

const reads: ReadonlySet<string> = new Set(["GET", "HEAD"])

const serve = async (path: string, file: File, request: Request): Promise<Response> => {
  const encoding = encodingFor(request.headers.get("accept-encoding") ?? "")
  const bytes = await bytesOf(path, file, encoding)
  return new Response(request.method === "HEAD" ? null : new Uint8Array(bytes), {
    headers: {
      ...secure,
      "content-type": file.type,
      "cache-control": file.cache,
      vary: "accept-encoding",
      ...(encoding !== "identity" && { "content-encoding": encoding }),
    },
  })
}

/** The page before the admin API. */
export const before =
  (next: Handler): Handler =>
  (request) => {
    const { pathname } = new URL(request.url)
    const file = reads.has(request.method) ? files.get(pathname) : undefined
    return file === undefined ? next(request) : serve(pathname, file, request)
  }
