/**
 * Requests to a running relay. `{relay}` is the address of its admin API. Its lanes are `lake`, and `old`, which has no
 * sink.
 */
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

const ask = (...command: ReadonlyArray<string>) => ({ config: asked(), command })

export const running: Theme = {
  title: "A running relay",
  mistakes: {
    "another token than the relay's": { config: asked("another"), command: ["status"] },
    "no token": { config: config({ admin: '{ "listen": "{relay}" }' }), command: ["status"] },
    "a lane is paused with a token that may only read": screen("lanes", "pause", "lake"),
    "a token of another name is to be sent": screen("status", "--as", "scren"),
    "an unknown lane is paused": ask("lanes", "pause", "nope"),
    "a lane is moved to a sink that there is not": ask("lanes", "move", "old", "nope"),
    "an id without a dead letter": ask("dlq", "show", "lake"),
    "a dead letter that there is not": ask("dlq", "show", "lake:42"),
    "dead letters of an unknown sink are replayed": ask("dlq", "replay", "--sink", "nope"),
    "dead letters by a wrong pattern are dropped": ask("dlq", "drop", "--type", "a..b"),
    "dead letters by patterns in one text are listed": ask("dlq", "list", "--type", "client.*,block.*"),
    "a replay that says not where to": ask("replay", "--all"),
    "a replay of everything, unasked": ask("replay", "--to", "lake"),
    "a replay to an unknown sink": ask("replay", "--to", "nope", "--all"),
    "a replay by a wrong pattern": ask("replay", "--to", "lake", "--type", "client.["),
    "a replay since later than until": ask("replay", "--to", "lake", "--since", "2026-01-02", "--until", "2026-01-01"),
    "a replay of an event that there is not": ask("replay", "evt_nope", "--to", "lake"),
    "events by a wrong pattern": ask("events", "--type", "client."),
    "an event that there is not is explained": ask("explain", "evt_nope"),
    "an unknown sink is followed": ask("tap", "--sink", "nope"),
    "a wrong pattern is followed": ask("tap", "--type", "client.["),
  },
}
