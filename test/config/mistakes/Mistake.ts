/** A mistake of a user, in a config or a command, whose message the tests show. */
import { canary } from "../../cli/configs.ts"

export interface Mistake {
  /** The config. `§` marks the place of the first finding, and is removed before the config is written. */
  readonly config?: string
  /** Files beside the config; a folder is `null`. */
  readonly files?: Readonly<Record<string, string | Uint8Array | null>>
  readonly env?: Readonly<Record<string, string>>
  /** The arguments that started the program, as the system reports them. */
  readonly started?: ReadonlyArray<string>
  /** The command without `-c FILE` (default: `validate --offline`). */
  readonly command?: ReadonlyArray<string>
}

export interface Theme {
  readonly title: string
  /** The key describes the mistake. If the value is a text, it is the config. */
  readonly mistakes: Readonly<Record<string, string | Mistake>>
}

/** A valid config. A mistake replaces parts of it. */
const parts = {
  webhooks: `{
    "scheduling": { "path": "/hooks", "secrets": [{ "name": "now", "value": "${canary}" }] }
  }`,
  sinks: `{ "audit": { "type": "file", "path": "./events.ndjson" } }`,
  routes: `[{ "name": "everything", "match": "**", "to": ["audit"] }]`,
  tests: undefined,
  listen: undefined,
  admin: undefined,
  tls: undefined,
  journal: undefined,
  delivery: undefined,
  clients: undefined,
  telemetry: undefined,
}

/** Returns the config with other parts, each as JSON text. `more` adds lines of its own. */
export const config = (changes: Partial<Record<keyof typeof parts | "more", string>>): string => {
  const { more, ...others } = changes
  const lines = Object.entries({ ...parts, ...others }).flatMap(([key, value]) =>
    value === undefined ? [] : [`"${key}": ${value}`],
  )
  return `{\n${[...lines, ...(more === undefined ? [] : [more])].map((line) => `  ${line}`).join(",\n")}\n}\n`
}

/** With another webhook. */
export const webhook = (inside: string): string => config({ webhooks: `{\n    "scheduling": { ${inside} }\n  }` })

const secrets = `"secrets": [{ "name": "now", "value": "${canary}" }]`

/** With more keys of the webhook. */
export const webhookWith = (inside: string): string => webhook(`"path": "/hooks", ${secrets}, ${inside}`)

/** With another list of secrets. */
export const secretsOf = (inside: string): string => webhook(`"path": "/hooks", "secrets": ${inside}`)

/** With another value of the secret, as JSON. */
export const secret = (value: string): string => secretsOf(`[{ "name": "now", "value": ${value} }]`)

/** With another sink. */
export const sink = (inside: string): string => config({ sinks: `{\n    "audit": { ${inside} }\n  }` })

export const file = (inside: string): string => sink(`"type": "file", "path": "./events.ndjson", ${inside}`)
export const http = (inside: string): string =>
  sink(`"type": "http", "url": "https://example.com/${canary}", ${inside}`)
export const slack = (inside: string): string =>
  sink(`"type": "slack", "url": "https://hooks.slack.com/services/${canary}", ${inside}`)
export const kafka = (inside: string): string => sink(`"type": "kafka", ${inside}`)

/** With more keys of the route. */
export const route = (inside: string): string =>
  config({ routes: `[{ "name": "everything", "match": "**", "to": ["audit"], ${inside} }]` })

/** With another pattern, as JSON. */
export const match = (pattern: string, more = ""): string =>
  config({ routes: `[{ "name": "some", "match": ${pattern}, ${more}"to": ["audit"] }]` })
