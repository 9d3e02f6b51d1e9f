/** The proxies of `config/deploy/proxies.md`, with the configs on that page. */
import { spawnSync } from "node:child_process"
import { readPage } from "../lib/docs.ts"

const page = readPage("config/deploy/proxies.md")

export interface FrontProxy {
  readonly program: string
  readonly version: string
  /** Completes its config for a process that isn't the machine's service. */
  readonly complete: (config: string, directory: string) => string
  readonly check: (file: string) => ReadonlyArray<string>
  readonly run: (file: string) => readonly [string, ...ReadonlyArray<string>]
  /** Its config without TLS, listening at this host and port. */
  readonly plain: (config: string, listen: string) => string
  /** Whether it polls `/readyz`. */
  readonly looks: boolean
  /** Its name in the table of lines for a Unix socket. */
  readonly label: string
}

export const proxies = {
  nginx: {
    program: "nginx",
    version: "-v",
    complete: (config, directory) => {
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map((name) => `${name}_temp_path ${directory}/${name};`)
        .join("\n")
      return `pid ${directory}/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n${temporary}\n${config}\n}\n`
    },
    check: (file) => ["nginx", "-t", "-c", file],
    // A killed master process leaves its workers running.
    run: (file) => ["nginx", "-c", file, "-g", "daemon off; master_process off;"],
    plain: (config, listen) => config.replace("listen 443 ssl", `listen ${listen}`).replaceAll(/^\s*ssl_.*\n/gm, ""),
    looks: false,
    label: "nginx",
  },
  caddy: {
    program: "caddy",
    version: "version",
    complete: (config) => config.replace("{\n", "{\n\tadmin off\n\tauto_https disable_redirects\n"),
    check: (file) => ["caddy", "validate", "--adapter", "caddyfile", "--config", file],
    run: (file) => ["caddy", "run", "--adapter", "caddyfile", "--config", file],
    plain: (config, listen) => config.replace("hooks.example.com {", `http://${listen} {`).replace(/^\s*tls .*\n/m, ""),
    looks: true,
    label: "Caddy",
  },
  haproxy: {
    program: "haproxy",
    version: "-v",
    complete: (config) => config,
    check: (file) => ["haproxy", "-c", "-f", file],
    run: (file) => ["haproxy", "-db", "-f", file],
    plain: (config, listen) => config.replace(/bind :443 .*/, `bind ${listen}`),
    looks: true,
    label: "HAProxy",
  },
} satisfies Readonly<Record<string, FrontProxy>>

export type ProxyName = keyof typeof proxies

export const names = Object.keys(proxies) as ReadonlyArray<ProxyName>

/** Why it can't be tested, or `undefined` if it can. */
export const reasonToSkip = ({ program, version }: FrontProxy): string | undefined => {
  if (spawnSync(program, [version], { stdio: "ignore" }).status !== 0)
    return `it needs ${program}: apt-get install ${program}`
  return process.env.RELAY_PARTS === "1" ? undefined : `RELAY_PARTS=1 bun test runs it with ${program}`
}

/** The config on the page. */
export const configOf = (name: ProxyName): string =>
  new RegExp(`^\`\`\`${name === "caddy" ? "caddyfile" : name}\n(.*?)^\`\`\``, "ms").exec(page)?.[1] ?? ""
