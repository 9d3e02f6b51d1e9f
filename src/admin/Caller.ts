/** The service that tells who sent the request that is being answered. */
import { Context } from "effect"
import { onlyToken, type Role } from "../config/Config.ts"

export interface CallerFacts {
  /** The token's name, or `local` where no token is needed. */
  readonly name: string
  readonly role: Role
  /** The program: the page, the command line, the admin API. */
  readonly by: string
}

export const Caller = Context.Reference<CallerFacts>("relay/admin/Caller", {
  defaultValue: () => ({ name: "local", role: "operate", by: "the admin API" }),
})

/** The caller as events record it. A token that all share names nobody. */
export const operatorOf = ({ name, by }: CallerFacts): string =>
  name === onlyToken || name === "local" ? by : `${name} (${by})`
