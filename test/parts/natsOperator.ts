/**
 * A NATS operator with one account and one user, as `nsc` makes them: the server's part of the configuration, and the
 * user's credentials file.
 */
import { nkeys } from "@nats-io/transport-node"

type Keys = ReturnType<typeof nkeys.createUser>

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes)
const base64url = (data: string | Uint8Array): string => Buffer.from(data).toString("base64url")

const sign = (by: Keys, subject: Keys, name: string, nats: object, expires = 0): string => {
  const now = Math.floor(Date.now() / 1_000)
  const claims = {
    ...{ jti: crypto.randomUUID(), iat: now, iss: by.getPublicKey(), name, sub: subject.getPublicKey() },
    ...(expires !== 0 && { exp: now + expires }),
    nats: { ...nats, version: 2 },
  }
  const signed = `${base64url('{"typ":"JWT","alg":"ed25519-nkey"}')}.${base64url(JSON.stringify(claims))}`
  return `${signed}.${base64url(by.sign(new TextEncoder().encode(signed)))}`
}

const limits = {
  ...{ subs: -1, data: -1, payload: -1, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 },
  ...{ mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 },
}

export const makeOperator = () => {
  const [operator, account, system] = [nkeys.createOperator(), nkeys.createAccount(), nkeys.createAccount()]
  const accountOf = (keys: Keys, name: string, more: object) =>
    `${keys.getPublicKey()}: ${sign(operator, keys, name, { ...more, type: "account" })}`
  return {
    config: `
      operator: ${sign(operator, operator, "operator", { type: "operator" })}
      system_account: ${system.getPublicKey()}
      resolver: MEMORY
      resolver_preload: {
        ${accountOf(account, "relay", { limits })}
        ${accountOf(system, "system", {})}
      }`,
    /** The text of a credentials file that expires in `expires` seconds. */
    credentials: (expires = 0): string => {
      const user = nkeys.createUser()
      const jwt = sign(account, user, "relay", { type: "user", subs: -1, data: -1, payload: -1 }, expires)
      return `-----BEGIN NATS USER JWT-----
${jwt}
------END NATS USER JWT------

************************* IMPORTANT *************************
NKEYs are sensitive and should be treated as secrets.

-----BEGIN USER NKEY SEED-----
${text(user.getSeed())}
------END USER NKEY SEED------
`
    },
  }
}
