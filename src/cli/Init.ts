/** `relay init`: a commented config to start from, never over one; or the unit that runs it as a service. */
import { Effect, FileSystem, Option } from "effect"
import { Command, Flag } from "effect/cli"
import unit from "../../config/relay.service" with { type: "text" }
import { io } from "./CommandError.ts"
import { Config, Json } from "./Options.ts"
import { plain, print, printJson } from "./Output.ts"
import { lazily, Program, quoted } from "./Program.ts"

export const init = Command.make(
  "init",
  {
    systemd: Flag.Boolean("systemd").pipe(
      Flag.withDescription("Print the unit of a systemd service instead"),
      Flag.withoutNegation,
      Flag.withDefault(false),
    ),
  },
  Effect.fn(function* ({ systemd }) {
    if (systemd) return yield* print(unit.trimEnd())
    const fs = yield* FileSystem.FileSystem
    const { command } = yield* Program
    const [{ defaultFile }, { embedded }] = yield* Effect.all([
      lazily(() => import("../config/Load.ts")),
      lazily(() => import("../config/Defaults.ts")),
    ])
    const chosen = yield* Config
    const file = Option.getOrElse(chosen, () => defaultFile)
    yield* fs
      .writeFileString(file, embedded, { flag: "wx" })
      .pipe(
        Effect.mapError(({ reason }) =>
          io(
            reason._tag === "AlreadyExists"
              ? `${plain(file)} is there already and stays as it is; \`--config FILE\` names another`
              : `${plain(file)} can't be written (${reason._tag})`,
          ),
        ),
      )
    if (yield* Json) return yield* printJson({ file })
    const flag = Option.isSome(chosen) ? ` -c ${quoted(file)}` : ""
    yield* print(
      `${plain(file)} written; \`${command} validate${flag}\` checks it, \`${command} run${flag}\` starts it`,
    )
  }),
).pipe(
  Command.withDescription("Write a commented config to start from"),
  Command.withExamples([
    { command: "relay init", description: "Writes relay.config.json; never over one" },
    { command: "relay init --systemd > /etc/systemd/system/relay.service", description: "Makes it a service" },
  ]),
)
