/** A running relay, as a process, gets another config. RELAY_UNDER selects the runtime, or the binary. */
import { afterAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { envelope, post, secret, sign, writeConfig } from "../lib/kit.ts"
import { type Relay, relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("reload-")
interface Parts {
  readonly secrets?: ReadonlyArray<{ readonly name: string; readonly value: string }>
  readonly sinks?: Readonly<Record<string, object>>
  readonly routes?: ReadonlyArray<object>
  readonly listen?: string
}

const file = (name: string) => ({ type: "file", path: `${name}.ndjson` })
const sinks = (...names: ReadonlyArray<string>) => Object.fromEntries(names.map((name) => [name, file(name)]))

const running: Array<Relay> = []
afterAll(() => Promise.all(running.map((one) => one.kill())))

let number = 0

/** A relay with its own config, and functions that change the config and send. */
const start = async (parts: Parts, args: ReadonlyArray<string> = []) => {
  const keys = ({ sinks: _, secrets, ...more }: Parts) => ({
    ...(secrets && { webhooks: { scheduling: { path: "/hooks", secrets } } }),
    ...more,
  })
  const written = await writeConfig(cwd, parts.sinks ?? {}, keys(parts), `${number++}.json`)
  const { config: name, admin, ports } = written
  const write = (parts: Parts, file = name) => written.write(parts.sinks ?? {}, keys(parts), file)
  const process = await startRelay(name, { cwd, args: ["--log-format", "text", ...args] })
  running.push(process)
  const ask = (...words: ReadonlyArray<string>) => relay([...words, "-c", name], { cwd })
  return {
    name,
    process,
    write,
    /** Editors save like this: a new file takes the config's name. */
    replace: (parts: Parts) => {
      write(parts, `${name}.new`)
      renameSync(join(cwd, `${name}.new`), join(cwd, name))
    },
    ask,
    reload: () => ask("reload"),
    /** Reloads without starting a command. */
    post: () => fetch(`${admin}/api/v1/reload`, { method: "POST" }),
    metrics: async () => (await fetch(`${admin}/metrics`)).text(),
    deliveries: ports[0],
  }
}

const bodyOf = (id: string) => envelope(id, { type: "client.created" })

const send = async (port: number, id: string, by = secret): Promise<number> => {
  const body = bodyOf(id)
  return (await post(`http://127.0.0.1:${port}/hooks`, body, { "x-service-signature": sign(body, by) })).status
}

const idsIn = (name: string): ReadonlyArray<string> => {
  const path = join(cwd, `${name}.ndjson`)
  if (!existsSync(path)) return []
  return readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line).id)
}

const arrives = async (name: string, id: string): Promise<void> => {
  while (!idsIn(name).includes(id)) await Bun.sleep(10)
}

const unreadable = {
  gone: () => {},
  empty: (path: string) => writeFileSync(path, ""),
  "a directory": (path: string) => mkdirSync(path),
  "a pipe": (path: string) => Bun.spawnSync(["mkfifo", path]),
}

describe.concurrent("relay run --watch", () => {
  test.each(Object.entries(unreadable))(
    "says that the config is %s, and goes on when it is back",
    async (_, put) => {
      const { name, write, process, ask, metrics } = await start({ sinks: sinks("watched") }, ["--watch"])
      const path = join(cwd, name)
      const text = readFileSync(path)
      rmSync(path)
      put(path)
      await process.prints("the active config stays")
      expect(await metrics()).toContain("relay_config_last_reload_successful 0")
      rmSync(path, { recursive: true, force: true })
      writeFileSync(path, text)
      await process.prints(/was reloaded: nothing has changed/)
      expect((await ask("status")).stdout).not.toContain("refused;")
      write({ sinks: sinks("watched", "more") })
      await process.prints("+ sink more")
    },
    60_000,
  )
})

describe.concurrent("relay reload", () => {
  test("adds, removes and renames sinks, reports it, and events follow the new routes", async () => {
    const { write, reload, ask, deliveries } = await start({ sinks: sinks("one", "two") })
    expect(await send(deliveries, "evt_1")).toBe(202)
    await Promise.all([arrives("one", "evt_1"), arrives("two", "evt_1")])
    write({ sinks: { ...sinks("three"), uno: { ...file("one"), renamedFrom: "one" } } })
    const { code, stdout, stderr } = await reload()
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout.split("\n").slice(1, -1)).toEqual([
      "  > sink uno from one",
      "  + sink three",
      "  - sink two",
      "  ~ route everything: to",
    ])
    expect(await send(deliveries, "evt_2")).toBe(202)
    await Promise.all([arrives("one", "evt_2"), arrives("three", "evt_2")])
    expect([idsIn("one"), idsIn("two"), idsIn("three")]).toEqual([["evt_1", "evt_2"], ["evt_1"], ["evt_2"]])
    const lanes = JSON.parse((await ask("lanes", "list", "--json")).stdout)
    const states = lanes.map((lane: { name: string; condition: string }) => `${lane.name} ${lane.condition}`)
    expect(states).toEqual(["_quarantine running", "three running", "two orphaned", "uno running"])
  })

  test("rotates a secret without a gap", async () => {
    const [old, fresh] = [
      { name: "old", value: "the-old-secret" },
      { name: "new", value: "the-new-secret" },
    ]
    const { write, post, deliveries } = await start({ secrets: [old], sinks: sinks("rotated") })
    const statuses: Array<number> = []
    for (const [secrets, signedWith] of [
      [[old, fresh], old],
      [[old, fresh], fresh],
      [[fresh], fresh],
      [[fresh], old],
    ] as const) {
      write({ secrets, sinks: sinks("rotated") })
      const answer = await post()
      expect([answer.status, await answer.text()]).toEqual([200, expect.not.stringMatching(/the-(old|new)-secret/)])
      statuses.push(await send(deliveries, `evt_${statuses.length}`, signedWith.value))
    }
    expect(statuses).toEqual([202, 202, 202, 401])
  })

  test("of a wrong config, or of a change that requires a restart, keeps the old config and says why", async () => {
    const { write, reload, post, ask, metrics, deliveries, process } = await start({ sinks: sinks("kept") })
    write({ sinks: sinks("other"), listen: "127.0.0.1:1" })
    expect(await reload()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^relay: only a restart changes listen \(\S+:\d+\), so nothing was changed: restart the relay, or take the change back\n$/,
      ),
    })
    write({ sinks: { other: { type: "file", paht: "x" } }, routes: [{ name: "a", match: "**", to: "nowhere" }] })
    const wrong = await reload()
    expect([wrong.code, wrong.stdout]).toEqual([78, ""])
    for (const words of ["sinks.other.paht", 'did you mean "path"?', "routes[0].to"])
      expect(wrong.stderr).toContain(words)
    const asJson = JSON.parse((await ask("reload", "--json")).stdout)
    expect(asJson).toMatchObject({ ok: false, diagnostics: [{ severity: "error" }, {}] })
    expect(await metrics()).toContain("relay_config_last_reload_successful 0")
    const status = await ask("status")
    expect([status.code, status.stdout]).toEqual([0, expect.stringContaining("the last reload was refused")])
    expect(await send(deliveries, "evt_kept")).toBe(202)
    await arrives("kept", "evt_kept")
    write({ sinks: sinks("kept") })
    expect(await (await post()).json()).toMatchObject({ changes: [], notes: [] })
    expect(await metrics()).toContain("relay_config_last_reload_successful 1")
    expect(process.stderr()).toMatch(/the active config stays: only a restart changes listen \(\S+:\d+\), so nothing/)
  })

  test("names the file and its last change, and refuses a file that was replaced outside the container", async () => {
    const { name, reload, ask, process: started } = await start({ sinks: sinks("mounted") })
    const path = join(cwd, name)
    const changedAt = statSync(path).mtime.toISOString()
    expect((await reload()).stdout).toBe(`${path}, last changed at ${changedAt}, was reloaded: nothing has changed\n`)
    await started.kill()

    // The kernel shows a replaced file that was mounted by itself in the same way: it has no link any more.
    const open = openSync(path, "r")
    const mounted = await startRelay(`/proc/${process.pid}/fd/${open}`, {
      cwd,
      args: ["--log-format", "text", "--watch"],
    })
    running.push(mounted)
    rmSync(path)
    await mounted.prints("was replaced outside the container, and its new content can't be read inside")
    writeFileSync(path, readFileSync(open))
    const status = await ask("status")
    expect([status.code, status.stdout]).toEqual([0, expect.stringContaining("was replaced outside the container")])
    expect(status.stdout).toContain("mount the directory, or restart the container")
    const refused = await reload()
    expect([refused.code, refused.stdout]).toEqual([1, ""])
    expect(refused.stderr).toContain("mount the directory, or restart the container")
  })

  test("doesn't disturb attempts or deliveries in progress, nor a body that is still arriving", async () => {
    let release = (): void => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const seen: Array<string> = []
    const sink = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: async (request) => {
        seen.push(request.headers.get("x-relay-event-id") ?? "")
        await released
        return new Response(null, { status: 204 })
      },
    })
    const slow = { slow: { type: "http", url: `http://127.0.0.1:${sink.port}/` } }
    const { write, post, deliveries } = await start({ sinks: { ...slow, ...sinks("before") } })
    await send(deliveries, "evt_slow")
    while (seen.length === 0) await Bun.sleep(5)

    const body = bodyOf("evt_half")
    const socket = connect(deliveries, "127.0.0.1")
    const answered = new Promise<string>((resolve) => socket.once("data", (data) => resolve(data.toString())))
    socket.write(
      `POST /hooks HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nx-service-signature: ${sign(body)}\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 20)}`,
    )
    // The listener has read the half request once it has answered a request sent after it.
    await send(deliveries, "evt_between")
    write({ sinks: { ...slow, ...sinks("after") } })
    expect((await post()).status).toBe(200)
    socket.write(body.slice(20))
    expect(await answered).toStartWith("HTTP/1.1 202")
    socket.destroy()
    await arrives("after", "evt_half")
    expect(idsIn("before")).not.toContain("evt_half")
    release()
    while (seen.length < 3) await Bun.sleep(5)
    expect(seen.toSorted()).toEqual(["evt_between", "evt_half", "evt_slow"])
    await sink.stop(true)
  })

  test("happens at SIGHUP too, and with --watch if another file takes the config's name", async () => {
    const { process, write, replace, deliveries } = await start({ sinks: sinks("first") }, ["--watch"])
    replace({ sinks: sinks("second") })
    await process.prints("+ sink second; - sink first")
    expect(await send(deliveries, "evt_watched")).toBe(202)
    await arrives("second", "evt_watched")

    const other = await start({ sinks: sinks("third") })
    other.write({ sinks: sinks("fourth") })
    other.process.signal("SIGHUP")
    await other.process.prints("+ sink fourth; - sink third")
    const recorded = async () => JSON.parse((await other.ask("audit", "--json")).stdout).records
    // The log reports the reload before the journal stores it.
    while ((await recorded()).length === 0) await Bun.sleep(20)
    expect(await recorded()).toMatchObject([{ who: "local", by: "SIGHUP or --watch", what: "reload", result: "done" }])
    write({ sinks: { wrong: {} } })
    await process.prints("the active config stays")
  })
})
