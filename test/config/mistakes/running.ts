/** What a running relay is asked. `{relay}` is the address of its admin API; its lanes are lake, and old without a sink. */
import { canary } from "../../cli/configs.ts"
import { config, type Theme } from "./Mistake.ts"

const asked = (token = canary): string => config({ admin: `{ "listen": "{relay}", "token": "${token}" }` })

/** With the token of a screen, whose role is `read`. */
const screen = (...command: ReadonlyArray<string>) => ({
  config: config({
    admin: `{ "listen": "{relay}", "tokens": [{ "name": "screen", "role": "read", "value": "${canary}-2" }] }`,
  }),
  command,
})

const ask = (name: string, ...command: ReadonlyArray<string>) => ({ name, config: asked(), command })

export const running: Theme = {
  title: "A running relay",
  mistakes: [
    { name: "another token than the relay's", config: asked("another"), command: ["status"] },
    { name: "no token", config: config({ admin: '{ "listen": "{relay}" }' }), command: ["status"] },
    { name: "a lane is paused with a token that may only read", ...screen("lanes", "pause", "lake") },
    { name: "a token of another name is to be sent", ...screen("status", "--as", "scren") },
    ask("an unknown lane is paused", "lanes", "pause", "nope"),
    ask("a lane is moved to a sink that there is not", "lanes", "move", "old", "nope"),
    ask("an id without a dead letter", "dlq", "show", "lake"),
    ask("a dead letter that there is not", "dlq", "show", "lake:42"),
    ask("dead letters of an unknown sink are replayed", "dlq", "replay", "--sink", "nope"),
    ask("dead letters by a wrong pattern are dropped", "dlq", "drop", "--type", "a..b"),
    ask("dead letters by patterns in one text are listed", "dlq", "list", "--type", "client.*,block.*"),
    ask("a replay that says not where to", "replay", "--all"),
    ask("a replay of everything, unasked", "replay", "--to", "lake"),
    ask("a replay to an unknown sink", "replay", "--to", "nope", "--all"),
    ask("a replay by a wrong pattern", "replay", "--to", "lake", "--type", "client.["),
    ask("a replay since later than until", "replay", "--to", "lake", "--since", "2026-01-02", "--until", "2026-01-01"),
    ask("a replay of an event that there is not", "replay", "evt_nope", "--to", "lake"),
    ask("events by a wrong pattern", "events", "--type", "client."),
    ask("an event that there is not is explained", "explain", "evt_nope"),
    ask("an unknown sink is followed", "tap", "--sink", "nope"),
    ask("a wrong pattern is followed", "tap", "--type", "client.["),
  ],
}
