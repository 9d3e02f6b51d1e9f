/** Masked parts of texts and values: they are marked, and named by the paths that lead to them. */
import { Fragment } from "preact"
import { mask } from "../../event/Quoted.ts"
import { plain } from "../../formats/Terminal.ts"
import { Block } from "./Shown.tsx"

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A payload may hold a text that is JSON. */
const isMember = (value: unknown): value is object => typeof value === "object" && value !== null

/** `body.data.object.name` of each value that is masked. */
export const masksIn = (value: unknown, path = ""): ReadonlyArray<string> => {
  const inner = typeof value === "string" && /^[[{]/.test(value) ? parsed(value) : value
  if (isMember(inner)) {
    return Object.entries(inner).flatMap(([key, member]) =>
      masksIn(member, Array.isArray(inner) ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`),
    )
  }
  return typeof value === "string" && value.includes(mask) ? [path] : []
}

/** A {@link Block} in which masks are marked. */
export const MaskedBlock = ({ of, label }: { readonly of: string; readonly label: string }) => (
  <Block label={label}>
    {of.split(mask).map((part, index) => (
      // The parts of a text have no names but their order.
      <Fragment key={`${index} ${part}`}>
        {index > 0 && <mark>{mask}</mark>}
        {part.split("\n").map(plain).join("\n")}
      </Fragment>
    ))}
  </Block>
)
