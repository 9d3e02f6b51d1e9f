/** The table says of each route whether it takes an event or a type, and why. */
import type { EventReport } from "../../admin/api/EventReport.ts"
import { Name, Pill, Text, type Tone } from "./Shown.tsx"
import { type Column, Table } from "./Table.tsx"

type Verdict = EventReport["routes"][number]

const tones: Partial<Record<Verdict["verdict"], Tone>> = { matches: "good", resolves: "good", "matches when": "warn" }

const columns: ReadonlyArray<Column<Verdict>> = [
  { title: "Route", cell: ({ route }) => <Name of={route} max={300} /> },
  { title: "Verdict", cell: ({ verdict }) => <Pill tone={tones[verdict] ?? "quiet"}>{verdict}</Pill> },
  { title: "Because of", kind: "code", cell: ({ because }) => <Text of={because} /> },
  { title: "Sinks", cell: ({ sinks }) => <Name of={sinks.join(", ")} max={300} /> },
]

export const Verdicts = ({ routes }: { readonly routes: ReadonlyArray<Verdict> }) => (
  <Table
    rows={routes}
    columns={columns}
    keyOf={({ route }) => route}
    classOf={({ verdict }) => (tones[verdict] === undefined ? "faded" : "")}
    hasHeading
  />
)
