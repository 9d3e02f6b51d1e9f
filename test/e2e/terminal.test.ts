/** The relay prints no control sequence for a terminal, even if names, types and files contain some. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { writeConfig } from "../lib/kit.ts"
import { relay, startRelay } from "../lib/relay.ts"
import { temporaryDirectory } from "../lib/temporaryRoot.ts"

const cwd = temporaryDirectory("terminal-")

const turned = "a\u202eb\u2066c\u200bd"
const steering = /[\p{Cf}\p{Zl}\p{Zp}]|(?!\n)\p{Cc}/u

test("no command prints a character that steers a terminal, from a type, an account, a file's name or a config", async () => {
  const config = `${turned}.json`
  const sinks = { screen: { type: "console" }, gone: { type: "http", url: "http://127.0.0.1:9/" } }
  const routes = [{ name: `all ${turned}`, match: "**", to: ["screen", "gone"] }]
  await writeConfig(cwd, sinks, { routes, journal: { path: "journal.db" } }, config)
  const running = await startRelay(config, { cwd })
  const ask = (...args: ReadonlyArray<string>) => relay([...args, "-c", config], { cwd })
  const all = [await ask("trigger", `client.${turned}`, "--force", "--account", turned)]
  await running.prints(/acct|client/)
  for (const args of [
    ["events"],
    ["events", "--json"],
    ["status"],
    ["status", "--json"],
    ["explain", `client.${turned}`],
    ["explain", `client.${turned}`, "--json"],
    ["dlq", "list"],
    ["validate", "--offline"],
    ["events", "--type", `${turned}.**`],
    ["explain", `evt_${turned}`],
    ["trigger", turned],
    ["lanes", "pause", turned],
  ]) {
    all.push(await ask(...args))
  }
  writeFileSync(join(cwd, config), `{ "${turned}": "${turned}", \u202e }`)
  all.push(await ask("validate"), await ask("run"))
  await running.kill()
  for (const { stdout, stderr } of [...all, { stdout: running.stdout(), stderr: running.stderr() }]) {
    expect(stdout + stderr).not.toMatch(steering)
  }
  expect(all.map(({ stdout, stderr }) => stdout + stderr).join("")).toContain("a\ufffdb")
  const events = JSON.parse(all[2]?.stdout ?? "") as { readonly events: ReadonlyArray<{ readonly type: string }> }
  expect(events.events.map(({ type }) => type)).toEqual([`client.${turned}`])
})
