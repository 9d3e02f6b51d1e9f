/** The tables of `relay status` below its lanes: relays, signing secrets and certificates. */
import type { Status } from "../../admin/Api.ts"
import type { Fleet } from "../../admin/FleetApi.ts"
import { lastSigned } from "../../admin/SecretProblems.ts"
import { fromNow, headedTable, span } from "./output.ts"

const streams = ({ streams, shared }: Fleet["relays"][number]): string => {
  const own = streams.length - (shared ? 1 : 0)
  return shared ? `${own} and the shared one` : String(own)
}

export const fleetTable = ({ relays }: Fleet, width: number): string =>
  headedTable(width, [
    ["RELAY", "VERSION", "CONFIG", "ADMIN", "STREAMS", "WAITING", "LAST SEEN"],
    ...relays.map((relay) => [
      `${relay.name}${relay.isSelf ? " (this one)" : ""}`,
      relay.version || "-",
      relay.configHash || "-",
      relay.address || "-",
      streams(relay),
      String(relay.waiting),
      `${span(relay.age)} ago`,
    ]),
  ])

export const secretsTable = ({ webhooks, now }: Status, width: number): string =>
  headedTable(width, [
    ["WEBHOOK", "SECRET", "LAST SIGNED", "EXPIRES"],
    ...webhooks.flatMap(({ name, secrets }) =>
      secrets.map((secret) => {
        const { expires } = secret
        return [name, secret.name, lastSigned(secret, now), expires === undefined ? "-" : fromNow(expires, now)]
      }),
    ),
  ])

export const certificatesTable = ({ certificates, now }: Status, width: number): string =>
  headedTable(width, [
    ["CERTIFICATE", "SUBJECT", "EXPIRES"],
    ...certificates.map(({ key, subject, notAfter }) => [key, subject, fromNow(notAfter, now)]),
  ])
