/** Limits the bodies of admin requests to what their endpoints need, before a body is read. */
import * as Problem from "../runtime/Problem.ts"

/** Enough for names, patterns and ids: 50,000 ids of dead letters are smaller. */
const most = 1024 * 1024
/** `relay journal import` sends some megabytes at a time, and at least one event with its body. */
const mostOf: Readonly<Record<string, number>> = { "/api/v1/journal/import": 64 * 1024 * 1024 }

/** Returns the refusal, or `undefined` if the body may be read. Only bodies of declared length are read. */
export const bodyProblem = ({ url, headers }: Request): Problem.Problem | undefined => {
  if (headers.has("transfer-encoding")) {
    return { status: 411, title: "The body must have a Content-Length", headers: Problem.closing }
  }
  const limit = mostOf[new URL(url).pathname] ?? most
  if (Number(headers.get("content-length") ?? 0) <= limit) return undefined
  return {
    status: 413,
    title: "The body is too large",
    detail: `this endpoint takes ${limit / 1024 / 1024} MiB at most; send less at a time`,
    headers: Problem.closing,
  }
}
