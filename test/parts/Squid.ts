/** Squid itself, for tests: Debian's, on loopback, with a port for each kind of refusal. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../lib/port.ts"
import { ServerProcess } from "./ServerProcess.ts"

const program = "squid"

/** Why the proxy's tests don't run and how to run them, or `undefined` if they run. */
export const reasonToSkip = (): string | undefined => {
  if (spawnSync(program, ["-v"], { stdio: "ignore" }).status !== 0) return "it needs squid: apt-get install squid"
  return process.env.RELAY_PARTS === "1" ? undefined : "RELAY_PARTS=1 bun test runs it against Squid"
}

export interface Squid {
  /** Host and port of a proxy that accepts every client. */
  readonly open: string
  /** Host and port of a proxy that refuses every client. */
  readonly closed: string
  /** Host and port of a proxy that requires credentials, which nobody has. */
  readonly guarded: string
  readonly stop: () => Promise<void>
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false))
    socket.on("connect", () => socket.destroy())
  })

/** Starts a proxy for one test. */
export const startSquid = async (): Promise<Squid> => {
  const home = mkdtempSync(join(tmpdir(), "relay-squid-"))
  const [open = 0, closed = 0, guarded = 0] = await Promise.all([1, 2, 3].map(freePort))
  const file = join(home, "squid.conf")
  // If root starts it, it changes to another user, which must be able to read its directory.
  spawnSync("chmod", ["777", home])
  writeFileSync(
    file,
    `http_port 127.0.0.1:${open} name=open
http_port 127.0.0.1:${closed} name=closed
http_port 127.0.0.1:${guarded} name=guarded
auth_param basic program /bin/cat
acl closed myportname closed
acl guarded myportname guarded
acl known proxy_auth REQUIRED
http_access deny closed
http_access deny guarded !known
http_access allow all
pid_filename ${home}/squid.pid
access_log none
cache_log ${home}/cache.log
cache deny all
coredump_dir ${home}
shutdown_lifetime 0 seconds
dns_nameservers 127.0.0.1
connect_timeout 2 seconds
`,
  )
  const own = new ServerProcess({
    name: "squid",
    home,
    command: [program, "-N", "-f", file],
    isUp: () => answers(guarded),
  })
  await own.start()
  return { open: `127.0.0.1:${open}`, closed: `127.0.0.1:${closed}`, guarded: `127.0.0.1:${guarded}`, stop: own.stop }
}
