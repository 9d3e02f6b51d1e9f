/** Helpers for tests of the whole program: its config, signed deliveries to it, and their results. */
import { createHmac } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { freePort } from "./port.ts"

/** The signing secret of every config that `writeConfig` writes. */
export const secret = "a-secret-of-this-test"

/** A file sink, for tests in which the sink doesn't matter. */
export const audit = { audit: { type: "file", path: "audit.ndjson" } }

export interface Written {
  /** The name of the file in its directory. */
  readonly config: string
  /** The address of the webhook. */
  readonly url: string
  /** The address of the admin API. */
  readonly admin: string
  /** The ports of both. */
  readonly ports: readonly [deliveries: number, admin: number]
  /** Writes the file again with other sinks or other keys, or another file beside it. */
  readonly write: (sinks?: object, more?: object, file?: string) => void
}

/**
 * Writes a config that sends everything to each of the sinks. `more` replaces keys of the config. Its paths are
 * relative to the directory.
 */
export const writeConfig = async (
  cwd: string,
  sinks: object = audit,
  more: object = {},
  name?: string,
): Promise<Written> => {
  const ports = [await freePort(), await freePort()] as const
  const [listen, admin] = ports.map((port) => `127.0.0.1:${port}`)
  const config = name ?? `${ports[0]}.json`
  const write = (newSinks: object = sinks, newKeys: object = more, file = config) =>
    writeFileSync(
      join(cwd, file),
      JSON.stringify({
        listen,
        admin: { listen: admin },
        journal: { path: `${config}.db` },
        webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }] } },
        sinks: newSinks,
        routes: [{ name: "everything", match: "**", to: Object.keys(newSinks) }],
        ...newKeys,
      }),
    )
  write()
  return { config, url: `http://${listen}/hooks`, admin: `http://${admin}`, ports, write }
}

/** The signature of a body, as the sender's header has it. */
export const sign = (body: string | Uint8Array, by: string = secret): string =>
  `sha256=${createHmac("sha256", by).update(body).digest("hex").toUpperCase()}`

/** Delivers a body as the sender does. `headers` adds headers, or replaces them. */
export const post = (url: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", "x-service-signature": sign(body), ...headers },
  })

/** Delivers a body as the sender does. Returns the status. */
export const deliver = async (url: string, body: string): Promise<number> => (await post(url, body)).status

/** The body of an event. `more` replaces keys of the envelope. */
export const envelope = (id: string, data: object = {}, more: object = {}): string =>
  JSON.stringify({
    id,
    account_id: "acct_1",
    version: "1",
    created_at: "2026-11-21T08:00:00Z",
    data: { type: "appointment.created", object: {}, ...data },
    ...more,
  })

/** The bodies of `count` events, of `accounts` accounts in turn. */
export const bodies = (count: number, accounts = 1): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, n) =>
    envelope(`evt_${n}`, { object: { n } }, { account_id: `acct_${n % accounts}` }),
  )

/** Repeats a check until it holds. The timeout of the test ends it otherwise. */
export const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await holds())) await Bun.sleep(20)
}
