/** Paths that look like the receiver's. */
import { envelope } from "../../../e2e/http/fixture.ts"
import * as Case from "../Case.ts"

const { delivery, differences } = Case

const paths = Case.kind("paths")
const path = (path: string, expected: Case.Expected) => {
  const body = envelope()
  return paths(path.slice(0, 80), delivery(body, { line: `POST ${path} HTTP/1.1` }), [body], expected)
}

export const cases: ReadonlyArray<Case.Case> = [
  path("/hooks/scheduling", 202),
  path("/hooks/scheduling?", 202),
  path("/hooks/scheduling?a=b&x-service-signature=c", 202),
  path("/hooks/scheduling?/../../admin", 202),
  path("/hooks/scheduling#a", 404),
  path("/hooks/scheduling/", 404),
  path("/hooks/Scheduling", 404),
  path("/HOOKS/SCHEDULING", 404),
  path("//hooks/scheduling", 404),
  path("/hooks//scheduling", 404),
  path("/./hooks/scheduling", differences.dots),
  path("/hooks/./scheduling", differences.dots),
  path("/hooks/../hooks/scheduling", differences.dots),
  path("/hooks/x/../scheduling", differences.dots),
  path("/../hooks/scheduling", differences.dots),
  path("/hooks/%73cheduling", 404),
  path("/hooks%2fscheduling", 404),
  path("/hooks/scheduling%2f", 404),
  path("/hooks/%2e/scheduling", differences.dots),
  path("/hooks/%2e%2e/hooks/scheduling", differences.dots),
  path("/hooks\\scheduling", differences.dots),
  path("\\hooks\\scheduling", 400),
  path("/hooks/scheduling%00", 404),
  path("/hooks/scheduling\0", differences.version),
  path("/hooks/scheduling;a=b", 404),
  path("/hooks/scheduling.json", 404),
  path("/hooks/scheduling%20", 404),
  path("/hooks/scheduling%0d%0aX-A:%20b", 404),
  path("/hooks/scheduling%3f", 404),
  path("/hooks/scheduling%23", 404),
  path("/hooks/\xe4", { bun: 404, deno: 400, why: "Deno takes ASCII only" }),
  path("/hooks/%c0%afscheduling", 404),
  path("/hooks/%", 404),
  path("/__proto__", 404),
  path("/constructor", 404),
  path("/", 404),
  path("/etc/passwd", 404),
  path("/../../../../etc/passwd", 404),
  path("/healthz", 404),
  path("/metrics", 404),
  path("/api/v1/status", 404),
  path("file:///hooks/scheduling", { bun: 400, deno: 404, why: "Deno takes any scheme" }),
  path("javascript:alert(1)", 400),
  path("relay.example/hooks/scheduling", 400),
  path("?/hooks/scheduling", 400),
]
