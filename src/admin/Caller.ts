/** The service that identifies the sender of the current request. */
import { Context } from "effect"
import { onlyToken, type Role } from "../config/Config.ts"

export interface CallerFacts {
  /** The token's name, or `local` if no token is required. */
  readonly name: string
  readonly role: Role
  /** The program: the page, the command line, the admin API. */
  readonly by: string
}

export const Caller = Context.Reference<CallerFacts>("relay/admin/Caller", {
  defaultValue: () => ({ name: "local", role: "operate", by: "the admin API" }),
})

/** Returns the caller as events record it. A shared token identifies no person. */
export const operatorOf = ({ name, by }: CallerFacts): string =>
  name === onlyToken || name === "local" ? by : `${name} (${by})`
