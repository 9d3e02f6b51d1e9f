import { describe, expect, test } from "bun:test"
import { type DatabaseUrl, parse } from "../../../../src/journal/postgres/connection/DatabaseUrl.ts"

const parsed = (text: string): DatabaseUrl => {
  const url = parse(text)
  if (typeof url === "string") throw new Error(url)
  return url
}

describe("the url of a database", () => {
  test("has a user, hosts and a database, as PostgreSQL's own clients write them", () => {
    expect(parsed("postgres://relay:p%40ss@db-1:5433,db-2/events?sslmode=require")).toEqual({
      hosts: [
        { host: "db-1", port: 5433, name: "db-1:5433" },
        { host: "db-2", port: 5432, name: "db-2:5432" },
      ],
      user: "relay",
      password: "p@ss",
      database: "events",
      sslMode: "require",
      channelBinding: "prefer",
    })
    expect(parsed("postgresql://[2001:db8::1]/events").hosts).toEqual([
      { host: "2001:db8::1", port: 5432, name: "[2001:db8::1]:5432" },
    ])
    expect(parsed("postgres://db/")).toMatchObject({ user: undefined, password: undefined, database: undefined })
  })

  test("may name the directory of a socket", () => {
    const { hosts, sslMode } = parsed("postgres:///relay?host=/run/postgresql")
    expect(hosts).toEqual([{ host: "/run/postgresql", port: 5432, name: "/run/postgresql" }])
    expect(sslMode).toBe("disable")
    expect(parsed("postgres:///relay?host=/run/postgresql&port=5433").hosts).toEqual([
      { host: "/run/postgresql", port: 5433, name: "/run/postgresql:5433" },
    ])
  })

  test("verifies the server by default, except one on this machine", () => {
    const modeOf = (text: string) => parsed(text).sslMode
    expect(modeOf("postgres://db/relay")).toBe("verify-full")
    expect(modeOf("postgres://127.0.0.1,db/relay")).toBe("verify-full")
    expect(modeOf("postgres://127.0.0.1,localhost,[::1]/relay")).toBe("disable")
    expect(modeOf("postgres://db/relay?sslmode=disable")).toBe("disable")
  })

  test("may contain the relay's defaults", () => {
    expect(typeof parse("postgres://db/relay?target_session_attrs=read-write")).toBe("object")
    expect(parsed("postgres://db/relay?channel_binding=require").channelBinding).toBe("require")
  })

  test.each([
    ["mysql://db/relay", "postgres://user@host"],
    ["postgres://secret-canary@db:port/relay", "postgres://user@host"],
    ["postgres://db:70000/relay", "postgres://user@host"],
    ["postgres://db,/relay", "postgres://user@host"],
    ["postgres://secret-canary%4@db/relay", "hexadecimal"],
    ["postgres://relay:secret-canary%rd@db/relay", "write it as %25"],
    ["postgres://db/relay?sslmode=prefer", "may send events unencrypted"],
    ["postgres://db/relay?sslmode=no-verify", '"require" encrypts'],
    ["postgres://db/relay?sslcert=canary.pem", '"tls"'],
    ["postgres://db/relay?sslmode=verify-full&sslrootcert=/etc/canary.crt", '"ca"'],
    ["postgres://db/relay?schema=canary", '"schema"'],
    ["postgres://db/relay?connect_timeout=5", '"connectTimeout"'],
    ["postgres://db/relay?pgbouncer=true&connection_limit=1", "leave it out"],
    ["postgres://db/relay?connection_limit=1", '"pool"'],
    ["postgres://db/relay?pool_max_conns=10", '"pool"'],
    ["postgres:///relay?host=/run/postgresql&user=canary", "before the question mark"],
    ["postgres:///relay?host=/run/postgresql&password=canary", '"password"'],
    ["postgres://db/relay?port=5433", "follows it"],
    ["postgres://db/relay?application_name=canary", "leave it out"],
    ["postgres://db/relay?options=-c%20statement_timeout%3D5000", "leave it out"],
    ["postgres://db/relay?gssencmode=disable", "leave it out"],
    ["postgres://db/relay?target_session_attrs=any", "target_session_attrs"],
  ])("%s is told what is wrong, and its own text is not shown", (text, says) => {
    const message = parse(text)
    expect(message).toBeString()
    expect(message).toContain(says)
    expect(message).not.toContain("canary")
  })
})
