/** The whole program with the sinks of a test: its config, and signed deliveries to it. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"

const secret = "a-secret-of-this-test"

/** Writes a config that sends everything to each of the sinks; where it is, where deliveries go, and the admin API. */
export const writeConfig = async (
  cwd: string,
  sinks: object,
): Promise<{ readonly config: string; readonly url: string; readonly admin: string }> => {
  const [deliveries, admin] = [await freePort(), await freePort()]
  const config = `${deliveries}.json`
  writeFileSync(
    join(cwd, config),
    JSON.stringify({
      listen: `127.0.0.1:${deliveries}`,
      admin: { listen: `127.0.0.1:${admin}` },
      journal: { path: `${deliveries}.db` },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: secret }] } },
      sinks,
      routes: [{ name: "everything", match: "**", to: Object.keys(sinks) }],
    }),
  )
  return { config, url: `http://127.0.0.1:${deliveries}/hooks`, admin: `http://127.0.0.1:${admin}` }
}

/** Delivers a body as the service does; the status. */
export const deliver = async (url: string, body: string): Promise<number> => {
  const digest = new Bun.CryptoHasher("sha256", secret).update(body).digest("hex").toUpperCase()
  const headers = { "content-type": "application/json", "x-service-signature": `sha256=${digest}` }
  return (await fetch(url, { method: "POST", headers, body })).status
}

/** Bodies of events, of so many accounts in turn. */
export const bodies = (count: number, accounts = 1): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, n) =>
    JSON.stringify({
      id: `evt_${n}`,
      account_id: `acct_${n % accounts}`,
      version: "1",
      created_at: "2026-11-21T08:00:00Z",
      data: { type: "appointment.created", object: { n } },
    }),
  )
