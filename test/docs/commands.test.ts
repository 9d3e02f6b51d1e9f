/**
 * Runs the commands of the operations page as they are written there: the procedures on a running relay, and each
 * single command.
 */
import { afterAll, describe, expect, test } from "bun:test"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { cli } from "../cli/harness.ts"
import { operations as page, procedures, readPage } from "../lib/docs.ts"
import { freePort } from "../lib/port.ts"
import { command } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const procedure = (title: string): string => procedures.get(title) ?? ""

const faq = readPage("docs/faq.md")

const machine = temporaryDirectory("operations-")
/** The places of a machine, below a directory of this test. */
const places = { "/var/lib/relay": "state", "/etc/relay": "etc", "/usr/local/bin": "bin", "/var/backups": "backups" }
for (const place of Object.values(places)) mkdirSync(join(machine, place))
const state = join(machine, "state")
const config = join(machine, "etc/relay.config.json")
const env = { PATH: `${join(machine, "bin")}:${process.env.PATH}`, HOME: machine, NO_COLOR: "1" }

/** Runs lines of the page in a shell that ends at the first failing line. Returns their output. */
const sh = async (script: string): Promise<string> => {
  const here = Object.entries(places).reduce((text, [from, to]) => text.replaceAll(from, join(machine, to)), script)
  const child = Bun.spawn(["sh", "-ec", here], { cwd: state, env, stdout: "pipe", stderr: "pipe" })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  expect([script, code, code === 0 ? "" : stdout + stderr]).toEqual([script, 0, ""])
  return stdout
}

const program = (name: string) =>
  writeFileSync(join(state, name), `#!/bin/sh\nexec ${command().join(" ")} "$@"\n`, { mode: 0o755 })
// A service manager with the actions that the page uses.
const manager = `#!/bin/sh
# The process that runs now: after \`relay restart\` it is another one.
running() { grep -lz '^${config}$' /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3; }
stop() { kill $(running); while [ -n "$(running)" ]; do sleep 0.02; done; }
start() {
  : > log
  relay run -c ${config} >>log 2>&1 </dev/null &
  until grep -q '"started"' log; do kill -0 $!; sleep 0.02; done
}
cd ${state}; [ "$2" = relay ] || exit 1
case $1 in start) start;; stop) stop;; restart) stop; start;; *) exit 1;; esac
`

const received: Array<string> = []
let status = 503
const receiver = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    if (new URL(request.url).pathname !== "/lake") return new Response(null, { status: 503 })
    if (status < 300) received.push(request.headers.get("idempotency-key") ?? "")
    return new Response(null, { status })
  },
})

const [port, admin] = [await freePort(), await freePort()]
const write = (sinks: ReadonlyArray<string>): void =>
  writeFileSync(
    config,
    JSON.stringify({
      listen: `127.0.0.1:${port}`,
      admin: { listen: `127.0.0.1:${admin}` },
      journal: { path: join(state, "journal.db") },
      webhooks: { scheduling: { path: "/hooks", secrets: [{ name: "main", value: "a-secret-of-this-test" }] } },
      sinks: Object.fromEntries(
        sinks.map((name) => [
          name,
          {
            type: "http",
            url: `http://127.0.0.1:${receiver.port}/${name}`,
            delivery: { retry: { initial: "20 millis", max: "50 millis" } },
          },
        ]),
      ),
      routes: [{ name: "everything", match: "**", to: sinks }],
    }),
  )

afterAll(async () => {
  await Bun.spawn([join(machine, "bin/systemctl"), "stop", "relay"], { stderr: "ignore" }).exited
  await receiver.stop(true)
})

const trigger = (count: number) => sh(`relay trigger appointment.created --count ${count}`)
const delivered = async (count: number): Promise<void> => {
  while (received.length < count) await Bun.sleep(10)
}

describe("the operations page's procedures", () => {
  test("upgrade, go back, back up and restore, and every event arrives", async () => {
    expect(procedures.size).toBe(page.split("```sh\n").length - 1)
    for (const name of ["relay-new", "../bin/relay"]) program(name)
    writeFileSync(join(machine, "bin/systemctl"), manager, { mode: 0o755 })
    write(["lake"])
    // Commands find the installed config in /etc, where this test can't put one.
    symlinkSync(config, join(state, "relay.config.json"))
    await sh("systemctl start relay")
    await trigger(2)
    const trying = (change: string) =>
      sh(`EDITOR="sed -i ${change}"\n${procedure("Trying a change").replace("--allow audit", "--allow lake")}`)
    expect(await trying("s/[*][*]/client.*/")).toMatch(/appointment\.created +scheduling +2 +- lake +evt_\w+ +allowed/)
    expect(await trying("s/everything/all/")).toContain("\n0 events to other sinks, ")
    expect(await sh(procedure("Putting it in force"))).toContain("+ route all")
    // The sink is down throughout, so the undelivered events go along from one relay to the next.
    expect(await sh(procedure("Upgrading"))).toContain("lake")
    await trigger(3)
    expect(await sh(procedure("Downgrading"))).toContain("5 events queued for delivery")
    await sh(procedure("Backing up"))
    await trigger(4)
    await sh(procedure("Restoring a backup"))
    expect(await sh("relay status || true")).toMatch(/critical {2}journal: red\n.*events 6 to 9 are lost/)
    // The backup is of the same journal, so its events are already on their way.
    const owed = await sh(procedure("Events missing from the backup"))
    expect(owed).toContain("4 events queued for delivery, 5 events already in the journal")
    status = 204
    await sh("relay lanes resume lake; relay journal acknowledge")
    await delivered(9)
    expect(new Set(received).size).toBe(9)
    expect(await sh("relay status --exit-code")).toStartWith("relay ")
    // Delivered events are settled a moment later. Events that aren't settled can't be erased.
    for (const outcome of ["pending", "retrying"]) {
      while ((await sh(`relay events --outcome ${outcome}`)) !== "") await Bun.sleep(10)
    }
    const person = (title: string) =>
      sh(procedure(title).replaceAll("acct_1", "acct_sample").replaceAll("cli_1", "cli_sample"))
    const erasing = await person("Erasing events")
    const none = "no other event has the id in its body\n"
    expect(erasing).toContain(
      `nothing was erased: 9 events would be erased\n${none}9 events erased\n${none}not reached: `,
    )
    const erased = await sh("relay events --account acct_sample")
    expect(erased.match(/ lake delivered .*\(erased \S+\)\n/g)?.length).toBe(9)
    expect(await person("Copies that it can't reach")).toContain("0 events erased\n  9 events erased before\n")
  }, 180_000)
})

describe("a single command on the operations page", () => {
  /** Lanes for the placeholder `OLD`. Each command takes another lane, because it may drop its lane. */
  const orphans = ["old", "older"]
  /** Returns the id of the first row of a list. Waits until the list has a row. */
  const idOf = async (list: string): Promise<string> => {
    for (;;) {
      const { stdout } = await cli([...list.split(" "), "--json", "-c", config])
      const id = /"id": "([^"]+)"/.exec(stdout)?.[1]
      if (id !== undefined) return id
      await Bun.sleep(10)
    }
  }
  const names: Readonly<Record<string, () => string | Promise<string>>> = {
    SINK: () => "lake",
    crm: () => "lake",
    acct_1: () => "acct_sample",
    cli_1: () => "cli_sample",
    OLD: () => orphans.pop() ?? "",
    ID: () => idOf("dlq list --sink lake"),
    EVENT_ID: () => idOf("events"),
    REPLAY: () => idOf("replay list"),
    TYPE: () => "client.created",
    STATE: () => "sink-waiting",
    FILE: () => join(state, "newer/journal.db"),
    TO: () => join(state, "salvaged.ndjson"),
    // An earlier journal, because a backup of the running journal is refused.
    "/var/backups/relay-2026-11-28.db": () => join(state, "newer/journal.db"),
  }

  test("works on a relay in the situation that it is for", async () => {
    status = 413
    write(["lake", ...orphans])
    await sh("relay reload && relay lanes pause old && relay lanes pause older")
    await trigger(5)
    write(["lake"])
    await sh("relay reload")
    while ((await cli(["dlq", "list", "-c", config])).stdout === "") await Bun.sleep(10)
    const lines = new Set([...`${page}\n${faq}`.matchAll(/`relay ([^`]+)`/g)].map(([, words = ""]) => words))
    expect(lines.size).toBeGreaterThan(25)
    for (const line of lines) {
      const words: Array<string> = []
      for (const [, quoted, word] of line.matchAll(/"([^"]*)"|(\S+)/g)) {
        words.push(quoted ?? (await names[word ?? ""]?.()) ?? word ?? "")
      }
      // This command runs until Ctrl-C, so its own tests run it.
      const asked = words[0] === "tap" ? ["tap", "--help"] : [...words, "-c", config]
      const { code, stderr } = await cli(asked)
      // The exit codes of these commands report a state: a lane has no sink, the backup lacks events, and some events
      // are undelivered.
      const allowed = ["status", "doctor", "journal check", "events erase"].some((one) => line.startsWith(one))
        ? [0, 1, 2]
        : [0]
      expect([line, allowed.includes(code) ? "" : `${code} ${stderr}`]).toEqual([line, ""])
    }
  }, 60_000)
})
