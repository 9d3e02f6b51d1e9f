/** The flags that every command takes, before or after its name. */
import { Flag, GlobalFlag } from "effect/cli"

export const Config = GlobalFlag.Setting("config")({
  flag: Flag.String("config").pipe(
    Flag.withAlias("c"),
    Flag.withMetavar("FILE"),
    Flag.withDescription("The config; else relay.config.json here, else the embedded defaults"),
    Flag.optional,
  ),
})

export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(
    Flag.withDescription("Print JSON instead of text"),
    Flag.withoutNegation,
    Flag.withDefault(false),
  ),
})
