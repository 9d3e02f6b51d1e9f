/** The three flags that every command accepts, and makers of flags, arguments and examples. */
import { type Option, Record, Schema } from "effect"
import { Argument, Command, Flag, GlobalFlag } from "effect/cli"

export const toggle = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withoutNegation, Flag.withDefault(false))

export const text = (name: string, metavar: string, description: string) =>
  Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

export const number = (name: string, metavar: string, description: string) =>
  Flag.Int(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

export const argument = (name: string, description: string) =>
  Argument.String(name).pipe(Argument.withDescription(description))

/** The examples of a command: what each does, by its words. */
export const withExamples = (all: Readonly<Record<string, string>>) =>
  Command.withExamples(Object.entries(all).map(([command, description]) => ({ command, description })))

/** Returns the values of the flags that were given. */
export const given = <F extends Readonly<Record<string, Option.Option<unknown>>>>(flags: F) =>
  Record.getSomes(flags) as { readonly [K in keyof F]?: Option.Option.Value<F[K]> }

/** Filters that several commands have. */
export const type = text("type", "PATTERN", "Only event types that match, such as appointment.**")
export const webhook = text("webhook", "NAME", "Only of this webhook")

export const limit = Flag.Int("limit").pipe(
  Flag.withDescription("Maximum number, newest first"),
  Flag.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1000 }))),
  Flag.withDefault(50),
)

export const Config = GlobalFlag.Setting("config")({
  flag: text(
    "config",
    "FILE",
    "The config (default: relay.config.json here, else /etc/relay/relay.config.json, else the embedded defaults)",
  ).pipe(Flag.withAlias("c")),
})

export const As = GlobalFlag.Setting("as")({
  flag: text("as", "NAME", "Ask the relay with this token of admin.tokens (default: the first that can be read)"),
})

export const Json = GlobalFlag.Setting("json")({ flag: toggle("json", "Print JSON instead of text") })
