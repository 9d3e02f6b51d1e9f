/** Which routes match an event, and why, as a table. */
import type { Explanation } from "../../routing/Explanation.ts"
import { headedTable } from "./output.ts"

const describe = ({ verdict, because }: Explanation): readonly [verdict: string, because: string] => {
  switch (verdict) {
    case "matches":
      return ["matches", `by ${because}`]
    case "matches when":
      return ["may match", `where ${because}`]
    case "resolves":
      return ["matches", `ends ${because}`]
    case "no pattern matches":
      return ["-", `none of ${because} matches`]
    case "excepted":
      return ["-", `excepted by ${because}`]
    case "other webhook":
      return ["-", `only deliveries of the webhook ${because}`]
    case "where differs":
      return ["-", `it does not hold that ${because}`]
  }
}

export const routesTable = (explanations: ReadonlyArray<Explanation>, width: number): string =>
  headedTable(width, [
    ["ROUTE", "VERDICT", "WHY", "SINKS"],
    ...explanations.map((explanation) => [explanation.route, ...describe(explanation), explanation.sinks.join(", ")]),
  ])
