/** Defaults that an image or a service sets by its environment. The keys of the file override them. */
import { Predicate } from "effect"
import { type Fields, fields } from "../Fields.ts"
import type { Environment } from "./References.ts"

/** The keys of `drain`, and the variables that have their defaults. */
const variables = { delay: "RELAY_DRAIN_DELAY", refuse: "RELAY_DRAIN_REFUSE" }

/** The file with a reference in the place of each key of `drain` that it leaves out and the environment has. */
export const withDefaults = (root: Fields, env: Environment["env"]): Fields => {
  const given = Object.entries(variables).filter(([, name]) => Object.hasOwn(env, name) && env[name] !== "")
  // Any other value of `drain` is an error, which the schema reports.
  if (given.length === 0 || !Predicate.isObject(root.drain ?? {})) return root
  const defaults = Object.fromEntries(given.map(([key, name]) => [key, `\${${name}}`]))
  return { ...root, drain: { ...defaults, ...fields(root.drain) } }
}
