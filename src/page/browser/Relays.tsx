/** The relays on one journal: which is this one, which is silent, and whether they run the same config. */
import type { Status } from "../../admin/Api.ts"
import { takeoverAfter } from "../../admin/Health.ts"
import { span } from "../../formats/Amounts.ts"
import { number, Pill, Text } from "./Shown.tsx"

type Fleet = NonNullable<Status["fleet"]>
type Relay = Fleet["relays"][number]

const streams = ({ streams, shared }: Relay): string => {
  const own = number(streams.length - (shared ? 1 : 0))
  return shared ? `${own} and the shared one` : own
}

export const Relays = ({ fleet }: { readonly fleet: Fleet }) => {
  const own = fleet.relays.find(({ isSelf }) => isSelf)
  return (
    <section aria-labelledby="relays">
      <h2 id="relays">Relays</h2>
      <div class="scroll">
        <table class="cards">
          <thead>
            <tr>
              <th scope="col">Relay</th>
              <th scope="col">Last seen</th>
              <th scope="col">Version</th>
              <th scope="col">Config</th>
              <th scope="col">Admin API</th>
              <th scope="col" class="amount">
                Streams
              </th>
              <th scope="col" class="amount">
                Waiting
              </th>
            </tr>
          </thead>
          <tbody>
            {fleet.relays.map((relay) => (
              <tr key={relay.name}>
                <th scope="row">
                  <Text of={relay.name} /> {relay.isSelf && <Pill tone="quiet">this one</Pill>}
                </th>
                <td data-label="Last seen">
                  {relay.age > takeoverAfter ? (
                    <Pill tone="warn">silent for {span(relay.age)}</Pill>
                  ) : (
                    `${span(relay.age)} ago`
                  )}
                </td>
                <td data-label="Version">
                  <Text of={relay.version === "" ? "–" : relay.version} />
                </td>
                <td data-label="Config" class="code">
                  <Text of={relay.configHash === "" ? "–" : relay.configHash} />{" "}
                  {relay.configHash !== "" && relay.configHash !== own?.configHash && <Pill tone="warn">another</Pill>}
                </td>
                <td data-label="Admin API" class="code">
                  <Text of={relay.address === "" ? "–" : relay.address} />
                </td>
                <td data-label="Streams" class="amount">
                  {streams(relay)}
                </td>
                <td data-label="Waiting" class="amount">
                  {number(relay.waiting)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {fleet.unowned.length > 0 && (
        <p class="advice">Streams that no relay delivers at the moment: {fleet.unowned.join(", ")}.</p>
      )}
    </section>
  )
}
