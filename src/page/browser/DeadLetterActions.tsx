/** Replaying and dropping dead letters, each after a question. */
import { signal } from "@preact/signals"
import type { Selection } from "../../admin/api/DeadLetterApi.ts"
import { count } from "../../formats/Amounts.ts"
import { plain } from "../../formats/Terminal.ts"
import { admin } from "./parts/AdminCalls.ts"
import { confirm } from "./parts/Confirm.tsx"

/** Incremented by each change on this page, so that lists reload. */
export const changes = signal(0)

const changed = (text: string): string => {
  changes.value += 1
  return text
}

/** `amount` is the number of dead letters, or a text if the number is not known exactly. */
export const confirmReplay = (selection: Selection, amount: number | string, command: string): void => {
  const many = typeof amount === "number" ? count(amount, "dead letter") : `${amount} dead letters`
  confirm({
    title: `Replay ${many}?`,
    what: (
      <p>
        {amount === 1 ? "It is" : "They are"} sent to {amount === 1 ? "its sink" : "their sinks"} again; what is in
        quarantine is routed by the config in force.
      </p>
    ),
    command,
    yes: "Replay",
    act: async () => {
      const { count: done, stayed, erased } = await admin.replayDeadLetters(selection)
      const left = stayed.map(({ why, count: many }) => ` ${many} stayed in quarantine: ${plain(why)}.`)
      return changed(
        `${count(done, "dead letter")} queued again.${left.join("")}${erased === 0 ? "" : ` ${erased} left out, because erased.`}`,
      )
    },
  })
}

export const confirmDrop = (selection: Selection, amount: number | string, command: string): void => {
  const many = typeof amount === "number" ? count(amount, "dead letter") : `${amount} dead letters`
  confirm({
    title: `Delete ${many}?`,
    what: <p>Their events will not be delivered. This can’t be undone.</p>,
    command,
    yes: "Delete",
    isDangerous: true,
    act: async () => changed(`${count((await admin.dropDeadLetters(selection)).count, "dead letter")} deleted.`),
  })
}
