/** The tokens of the admin API as a config's file has them, before any of their secrets is read. */
import { onlyToken } from "../Config.ts"
import { fields, items } from "../Fields.ts"

/** A token as the file has it: its secret may be a reference that is not read. */
export interface WrittenToken {
  readonly name: unknown
  readonly value: unknown
  /** The admin section with this token and without the texts of the others. */
  readonly alone: unknown
}

export const writtenTokens = (admin: unknown): ReadonlyArray<WrittenToken> => {
  const { token, tokens } = fields(admin)
  const named = items(tokens).map((one, index) => {
    const { name, value } = fields(one)
    const others = items(tokens).map((other, at) => (at === index ? one : { ...fields(other), value: "unread" }))
    return { name, value, alone: { ...fields(admin), tokens: others } }
  })
  return token === undefined ? named : [{ name: onlyToken, value: token, alone: admin }, ...named]
}
