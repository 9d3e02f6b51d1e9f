/** The mistakes by topic. */
import { commandLine } from "./commandLine.ts"
import { environment } from "./environment.ts"
import { foreign } from "./foreign.ts"
import { http } from "./http.ts"
import { literal } from "./literal.ts"
import type { Theme } from "./Mistake.ts"
import { references } from "./references.ts"
import { routes } from "./routes.ts"
import { running } from "./running.ts"
import { services } from "./services.ts"
import { sinks } from "./sinks.ts"
import { syntax } from "./syntax.ts"
import { values } from "./values.ts"
import { webhooks } from "./webhooks.ts"

export const themes: ReadonlyArray<Theme> = [
  syntax,
  values,
  references,
  webhooks,
  sinks,
  http,
  services,
  foreign,
  literal,
  routes,
  commandLine,
  running,
  environment,
]
