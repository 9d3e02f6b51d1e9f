/** The config that `relay run` uses where there is no file, and that `relay init` writes: the project's own. */
import text from "../../../relay.config.json" with { type: "text" }

// A .json file has the type of its content, whatever it is imported as.
export const embedded = text as unknown as string
