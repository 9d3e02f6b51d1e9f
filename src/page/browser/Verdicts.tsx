/** The table says of each route whether it takes an event or a type, and why. */
import type { EventReport } from "../../admin/Api.ts"
import { Pill, Text, type Tone } from "./Shown.tsx"

type Verdict = EventReport["routes"][number]

const tones: Partial<Record<Verdict["verdict"], Tone>> = { matches: "good", resolves: "good", "matches when": "warn" }

export const Verdicts = ({ routes }: { readonly routes: ReadonlyArray<Verdict> }) => (
  <div class="scroll">
    <table class="cards">
      <thead>
        <tr>
          <th scope="col">Route</th>
          <th scope="col">Verdict</th>
          <th scope="col">Because of</th>
          <th scope="col">Sinks</th>
        </tr>
      </thead>
      <tbody>
        {routes.map(({ route, sinks, verdict, because }) => (
          <tr key={route} class={tones[verdict] === undefined ? "faded" : ""}>
            <th scope="row">
              <Text of={route} />
            </th>
            <td data-label="Verdict">
              <Pill tone={tones[verdict] ?? "quiet"}>{verdict}</Pill>
            </td>
            <td data-label="Because of" class="code">
              <Text of={because} />
            </td>
            <td data-label="Sinks">
              <Text of={sinks.join(", ")} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
