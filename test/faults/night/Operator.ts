/** An operator in the morning, who knows the relay's command line, or its page, and nothing else. */
import type { DeadLetter } from "../../../src/admin/api/DeadLetterApi.ts"
import type { Status } from "../../../src/admin/status/Status.ts"
import { openChromium } from "../../parts/Chromium.ts"
import type { Subject } from "../relay/Subject.ts"

/** An event that failed at a sink. */
export interface Failed {
  readonly id: string
  readonly why: string
}

/** The number of events that a replay announced before it was confirmed, and that it then queued. */
export interface Replayed {
  readonly announced: number
  readonly queued: number
}

export interface Operator {
  /** The sinks that have failed events, with their number. */
  readonly sinks: () => Promise<ReadonlyMap<string, number>>
  readonly failed: (sink: string) => Promise<ReadonlyArray<Failed>>
  /** Replays the failed events of a sink to that sink. */
  readonly replay: (sink: string) => Promise<Replayed>
  readonly leave: () => Promise<void>
}

/** The longest page of `dlq list`. */
const limit = 1_000

export const atCommandLine = async (subject: Subject): Promise<Operator> => {
  const ask = async <A>(...words: ReadonlyArray<string>): Promise<A> => {
    const { said } = await subject.run(...words, "--json")
    try {
      return JSON.parse(said) as A
    } catch {
      throw new Error(`relay ${words.join(" ")}: ${said}`)
    }
  }
  return {
    sinks: async () => {
      const { lanes } = await ask<Status>("status")
      return new Map(lanes.filter((lane) => lane.deadLetters > 0).map((lane) => [lane.name, lane.deadLetters]))
    },
    failed: async (sink) => {
      const all: Array<Failed> = []
      for (let before: ReadonlyArray<string> = []; ; ) {
        const words = ["dlq", "list", "--sink", sink, "--since", "yesterday", "--limit", String(limit), ...before]
        const page = await ask<ReadonlyArray<DeadLetter>>(...words)
        all.push(...page.map(({ eventId, attempts }) => ({ id: eventId, why: attempts.at(-1)?.message ?? "" })))
        const oldest = page.at(-1)
        if (page.length < limit || oldest === undefined) return all
        before = ["--before", oldest.id]
      }
    },
    replay: async (sink) => {
      const words = ["dlq", "replay", "--sink", sink, "--since", "yesterday"]
      const dry = await ask<{ readonly count: number }>(...words, "--dry-run")
      const { count } = await ask<{ readonly count: number }>(...words)
      return { announced: dry.count, queued: count }
    },
    leave: async () => {},
  }
}

/** Milliseconds for what reads or replays all dead letters of the night. */
const patience = 600_000

/** The number that a text of the page shows, such as "Replay 1,234 dead letters?". */
const numberIn = (text: string | null): number => Number((text ?? "").replaceAll(/\D/g, ""))

export const atPage = async (subject: Subject): Promise<Operator> => {
  const browser = await openChromium()
  const page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  const show = async (view: string) => {
    // Otherwise a view that differs in its fragment alone is not a new page.
    await page.goto("about:blank")
    await page.goto(`http://${subject.admin}/#/${view}`)
    // Before its first answer, the page shows no list.
    await page.locator(".link.live").waitFor()
  }
  const cells = (title: string) => page.locator(`td[data-label="${title}"]`).allTextContents()
  const shownList = (sink: string) => show(`dead-letters?sink=${sink}`)
  return {
    sinks: async () => {
      await show("dead-letters")
      await page.locator("td[data-label=Event], .nothing").first().waitFor()
      const names = page.getByLabel("Sink").locator("option")
      const counts = new Map<string, number>()
      for (const sink of (await names.allTextContents()).slice(1)) {
        await shownList(sink)
        counts.set(sink, numberIn(await page.getByText(/^[\d,]+ in all$/).textContent()))
      }
      return counts
    },
    failed: async (sink) => {
      await shownList(sink)
      const all: Array<Failed> = []
      for (;;) {
        await page.locator("td[data-label=Event], .nothing").first().waitFor()
        const [ids, reasons] = [await cells("Event"), await cells("Why")]
        // The table may have been drawn again in between.
        if (ids.length !== reasons.length || (ids.length === 0 && !(await page.locator(".nothing").isVisible())))
          continue
        all.push(...ids.map((id, index) => ({ id: id.trim(), why: reasons[index] ?? "" })))
        const [older, last] = [page.getByRole("link", { name: "Older", exact: true }), all.at(-1)]
        if (last === undefined || (await older.count()) === 0) return all
        await older.click()
        await page.getByRole("link", { name: last.id, exact: true }).waitFor({ state: "detached" })
      }
    },
    replay: async (sink) => {
      await show(`sink/${sink}`)
      await page.getByLabel(/^Received since/).fill("2026-01-01T00:00")
      await page.getByRole("button", { name: "Replay since…" }).click()
      const dialog = page.getByRole("dialog")
      const heading = dialog.getByRole("heading", { name: /^Replay .* dead letters?\?$/ })
      await heading.waitFor({ timeout: patience })
      const announced = numberIn(await heading.textContent())
      await dialog.getByRole("button", { name: "Replay" }).click()
      const message = page.getByText(/ dead letters? queued again\.$/)
      await message.waitFor({ timeout: patience })
      return { announced, queued: numberIn(await message.textContent()) }
    },
    leave: () => browser.close(),
  }
}
