/** `relay init`: a commented config to start from. It never overwrites one. */
import { Effect, FileSystem, Option } from "effect"
import { Command } from "effect/cli"
import { io } from "./CommandError.ts"
import { Config, Json } from "./Options.ts"
import { plain, print, printJson } from "./Output.ts"
import { lazily, Program, quoted } from "./Program.ts"

export const init = Command.make(
  "init",
  {},
  Effect.fn(function* () {
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
  Command.withExamples([{ command: "relay init", description: "Writes relay.config.json; never over one" }]),
)
