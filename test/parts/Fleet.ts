/** Several relays on one PostgreSQL behind a load balancer, all on this machine, by `config/examples/fleet.json`. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { freePort } from "../lib/port.ts"
import { type Relay, startRelay } from "../lib/relay.ts"
import { type Backend, makeLoadBalancer } from "./LoadBalancer.ts"
import { makePostgres, type Postgres } from "./Postgres.ts"

const config = resolve(import.meta.dir, "../../config/examples/fleet.json")

export interface Member extends Backend {
  readonly name: string
  readonly relay: Relay
  /** The file of its part of the audit log. */
  readonly audit: string
}

export interface Fleet {
  /** The load balancer's URL for deliveries. */
  readonly url: string
  readonly database: Postgres
  readonly members: ReadonlyArray<Member>
  readonly stop: () => Promise<void>
}

/** Starts a fleet on `port` (default: a free one). */
export const startFleet = async (names: ReadonlyArray<string>, backoffice: string, port = 0): Promise<Fleet> => {
  const cwd = mkdtempSync(join(tmpdir(), "relay-fleet-"))
  mkdirSync(join(cwd, "data"))
  const database = await makePostgres()
  const start = async (name: string): Promise<Member> => {
    const [own, admin] = [await freePort(), await freePort()]
    const env = {
      RELAY_PORT: String(own),
      RELAY_ADMIN_PORT: String(admin),
      RELAY_NAME: name,
      RELAY_DATABASE: database.url,
      BACKOFFICE_URL: backoffice,
    }
    return {
      name,
      url: `http://127.0.0.1:${own}`,
      admin: `http://127.0.0.1:${admin}`,
      relay: await startRelay(config, { cwd, env }),
      audit: join(cwd, "data", `${name}.ndjson`),
    }
  }
  const members = await Promise.all(names.map(start))
  const balancer = await makeLoadBalancer(port, members)
  return {
    url: balancer.url,
    database,
    members,
    stop: async () => {
      balancer.close()
      await Promise.all(members.map(({ relay }) => relay.kill()))
      await database.stop()
      rmSync(cwd, { recursive: true, force: true })
    },
  }
}
