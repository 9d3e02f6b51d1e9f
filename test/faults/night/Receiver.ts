/** A receiver outside the project's code: nginx, whose access log names each request that it accepted. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../lib/port.ts"
import { ServerProcess } from "../../parts/ServerProcess.ts"
import { numberOf } from "../relay/Traffic.ts"

/** Debian's directory of nginx is not in every user's PATH. */
const program = Bun.which("nginx", { PATH: `${process.env.PATH}:/usr/sbin` })

export const reasonToSkip = program === null ? "it needs nginx: apt-get install nginx-light" : undefined

const accepted = "204 "

/** Answers 422 to events of the type `rejected`, and 204 to others. */
const configOf = (home: string, port: number, rejected: string): string => {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
  return `
    daemon off;
    master_process off;
    pid ${home}/pid;
    error_log stderr;
    events {}
    http {
      ${temporary.map((name) => `${name}_temp_path ${home}/${name};`).join("\n")}
      log_format event "$status $http_x_relay_event_id";
      access_log ${home}/access.log event;
      client_header_buffer_size 16k;
      # Otherwise the last requests before its end are answered and not logged.
      lingering_close off;
      server {
        listen 127.0.0.1:${port};
        location = /up { access_log off; return 204; }
        location / {
          if ($http_x_relay_event_type = "${rejected}") { return 422 "no events of this type"; }
          return 204;
        }
      }
    }`
}

export class Receiver {
  readonly url: string
  readonly #home: string
  readonly #port: number
  readonly #server: ServerProcess

  private constructor(port: number) {
    this.#port = port
    this.url = `http://127.0.0.1:${port}/`
    this.#home = mkdtempSync(join(tmpdir(), "relay-receiver-"))
    this.#server = new ServerProcess({
      name: "nginx",
      home: this.#home,
      command: [program ?? "nginx", "-p", this.#home, "-c", join(this.#home, "nginx.conf")],
      isUp: () =>
        fetch(`${this.url}up`).then(
          ({ ok }) => ok,
          () => false,
        ),
    })
  }

  static async start(rejected?: string): Promise<Receiver> {
    const receiver = new Receiver(await freePort())
    await receiver.up(rejected)
    return receiver
  }

  /** Starts it. It rejects the events of one type, or none. */
  async up(rejected = ""): Promise<void> {
    writeFileSync(join(this.#home, "nginx.conf"), configOf(this.#home, this.#port, rejected))
    await this.#server.start()
  }

  /** Stops it, so that connections to its address are refused. nginx first ends the request that it works on. */
  down(): Promise<void> {
    return this.#server.leave()
  }

  /** The numbers of the accepted events, in the order in which they came. */
  arrivals(): ReadonlyArray<number> {
    const lines = readFileSync(join(this.#home, "access.log"), "utf8").split("\n")
    return lines.filter((line) => line.startsWith(accepted)).map((line) => numberOf(line.slice(accepted.length)))
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }
}
