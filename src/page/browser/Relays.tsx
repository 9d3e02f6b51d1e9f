/** The relays on one journal: which is this one, which is silent, and whether they run the same config. */

import { isSilent } from "../../admin/status/Health.ts"
import type { Status } from "../../admin/status/Status.ts"
import { span } from "../../formats/Amounts.ts"
import { number, Pill, Text } from "./Shown.tsx"
import { type Column, Table } from "./Table.tsx"

type Fleet = NonNullable<Status["fleet"]>
type Relay = Fleet["relays"][number]

const shown = (text: string) => (text === "" ? undefined : <Text of={text} />)

const streams = ({ streams, shared }: Relay): string => {
  const own = number(streams.length - (shared ? 1 : 0))
  return shared ? `${own} and the shared one` : own
}

const columnsOf = (own: Relay | undefined): ReadonlyArray<Column<Relay>> => [
  {
    title: "Relay",
    cell: ({ name, isSelf }) => (
      <>
        <Text of={name} /> {isSelf && <Pill tone="quiet">this one</Pill>}
      </>
    ),
  },
  {
    title: "Last seen",
    cell: (relay) =>
      isSilent(relay) ? <Pill tone="warn">silent for {span(relay.age)}</Pill> : `${span(relay.age)} ago`,
  },
  { title: "Version", cell: ({ version }) => shown(version) },
  {
    title: "Config",
    kind: "code",
    cell: ({ configHash }) =>
      configHash === "" ? undefined : (
        <>
          <Text of={configHash} /> {configHash !== own?.configHash && <Pill tone="warn">another</Pill>}
        </>
      ),
  },
  { title: "Admin API", kind: "code", cell: ({ address }) => shown(address) },
  { title: "Streams", kind: "amount", cell: streams },
  { title: "Waiting", kind: "amount", cell: ({ waiting }) => number(waiting) },
]

export const Relays = ({ fleet: { relays, unowned } }: { readonly fleet: Fleet }) => (
  <section aria-labelledby="relays">
    <h2 id="relays">Relays</h2>
    <Table
      rows={relays}
      columns={columnsOf(relays.find(({ isSelf }) => isSelf))}
      keyOf={({ name }) => name}
      hasHeading
    />
    {unowned.length > 0 && <p class="advice">Streams that no relay delivers at the moment: {unowned.join(", ")}.</p>}
  </section>
)
