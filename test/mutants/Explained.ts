/**
 * Random mutants that no test should notice, each with the reason. Here are only
 * changes that leave the behaviour as it is, or that a clock or a cost alone
 * could show. Any other survivor lacks a test.
 */
import type { Result } from "./Results.ts"

interface Explained extends Pick<Result, "file" | "code" | "column" | "was" | "becomes"> {
  readonly why: string
}

export const explained: ReadonlyArray<Explained> = [
  {
    file: "src/journal/sqlite/search/Index.ts",
    code: "if (codes.size > 0) return codes",
    column: 22,
    was: "0",
    becomes: "1",
    why: "A map with one code is put again into the maps that have it.",
  },
  {
    file: "src/routing/Pattern.ts",
    code: "all.push(...expand(source.slice(0, open) + choice + source.slice(end), limit - all.length))",
    column: 82,
    was: "-",
    becomes: "+",
    why: "Only the number of patterns above the limit changes, and callers only ask whether it is above.",
  },
  {
    file: "src/delivery/lane/Lane.ts",
    code: "return (filled.fresh > 0 && this.#parts.queue.fresh === 0) || (filled.due > 0 && this.#parts.queue.retries === 0)",
    column: 116,
    was: "0",
    becomes: "1",
    why: "The next due retries are read when the first attempt ends, instead of at once. No event waits longer than an attempt.",
  },
  {
    file: "src/journal/sqlite/maintenance/Pages.ts",
    code: "if (headerEnd < 2 || headerEnd > 256 || headerEnd > payload.length) return undefined",
    column: 34,
    was: ">",
    becomes: ">=",
    why: "The rows of a journal have a dozen columns at most, so a header of 256 bytes is not one of theirs.",
  },
  {
    file: "src/event/Nearest.ts",
    code: "return previous[b.length] ?? 0",
    column: 32,
    was: "0",
    becomes: "1",
    why: "A row of distances always has this element. Only the compiler wants a number in its place.",
  },
  {
    file: "src/journal/sqlite/file/OwnFiles.ts",
    code: "const schemaBytes = 64 * 1024",
    column: 26,
    was: "1024",
    becomes: "(1024 + 1)",
    why: "The schema is in the first page, which has 64 KiB at most. What is read beyond it does not matter.",
  },
  {
    file: "src/journal/sqlite/search/Index.ts",
    code: "if (this.#first < first) this.#forget(Math.min(first, this.#first + step.forgotten))",
    column: 23,
    was: "<",
    becomes: "<=",
    why: "It forgets the events before the first one that the index has: none.",
  },
  {
    file: "src/delivery/lane/Lane.ts",
    code: "if (this.inFlight.size > 0) return 0",
    column: 28,
    was: ">",
    becomes: ">=",
    why: "A lane with waiting events looks at its deadlines at every tick, instead of at the next one. That costs CPU, and changes no delivery.",
  },
  {
    file: "src/ingest/RecentRefusals.ts",
    code: "since: (seen) => (seen >= total ? [] : latest.slice(Math.max(0, latest.length - (total - seen)))),",
    column: 28,
    was: ">=",
    becomes: ">",
    why: "With nothing new, the slice of the newest refusals is empty, too.",
  },
  {
    file: "src/journal/sqlite/commit/Duplicates.ts",
    code: "this.#maxCapacity = Math.max(1024, Math.ceil(options.count))",
    column: 34,
    was: "1024",
    becomes: "(1024 + 1)",
    why: "The least number of duplicates that are remembered is no promise. One more is remembered.",
  },
  {
    file: "src/delivery/lane/Lane.ts",
    code: "return this.inFlight.size + this.#waiting > 0",
    column: 47,
    was: ">",
    becomes: ">=",
    why: "A lane that has nothing to watch looks at its deadlines every few seconds. That costs CPU, and changes no delivery.",
  },
  {
    file: "src/journal/sqlite/file/FreeSpace.ts",
    code: "this.#unsynced = 0",
    column: 5,
    was: "this.#unsynced = 0",
    becomes: ";",
    why: "After the first sync, each write is synced. That costs time, and overwrites the same bytes.",
  },
  {
    file: "src/ingest/Ingest.ts",
    code: "const firstByteDeadline = Duration.seconds(10)",
    column: 44,
    was: "10",
    becomes: "(10 + 1)",
    why: "How long a body's first byte may take is no promise. The tests of the deadline set their own.",
  },
  {
    file: "src/delivery/lane/Changes.ts",
    code: "this.unstored -= this.#storing?.settled ?? 0",
    column: 48,
    was: "0",
    becomes: "1",
    why: "A settlement is always being stored when it is reported as stored.",
  },
  {
    file: "src/event/SampleEvent.ts",
    code: '"relay.journal_filling": () => ({ percent: 80, used_bytes: 8_589_934_592, max_bytes: 10_737_418_240 }),',
    column: 62,
    was: "8_589_934_592",
    becomes: "(8_589_934_592 + 1)",
    why: "It is a number of a sample.",
  },
  {
    file: "src/journal/sqlite/file/FreeSpace.ts",
    code: "if (count > this.#usable / 4 - 2) {",
    column: 17,
    was: ">",
    becomes: ">=",
    why: "SQLite leaves the last six entries of a page of its free list unused, so no sound page is full.",
  },
  {
    file: "src/event/Envelope.ts",
    code: "text.length > longest || (text.length * 3 > longest && Buffer.byteLength(text) > longest)",
    column: 43,
    was: "3",
    becomes: "(3 + 1)",
    why: "The product only saves counting the bytes of short texts. With a larger one, more texts are counted.",
  },
  {
    file: "src/ingest/RecentRefusals.ts",
    code: "if (latest.length >= 2 * maxLatest) latest.splice(0, maxLatest)",
    column: 25,
    was: ">=",
    becomes: ">",
    why: "The list is shortened one refusal later. Readers get the newest ones of it in either case.",
  },
  {
    file: "src/delivery/lane/Alerts.ts",
    code: "export const keptFor: Millis = 86_400_000",
    column: 32,
    was: "86_400_000",
    becomes: "(86_400_000 + 1)",
    why: "An alert that has ended is kept a millisecond longer. The tests use the same constant.",
  },
  {
    file: "src/routing/Pattern.ts",
    code: "const count = (text: string, part: string): number => text.split(part).length - 1",
    column: 79,
    was: "-",
    becomes: "+",
    why: "Two counts are compared with each other, and both are higher by two.",
  },
]

export const explanationOf = (result: Omit<Explained, "why">): string | undefined =>
  explained.find(({ why, ...change }) =>
    Object.entries(change).every(([key, value]) => result[key as keyof typeof change] === value),
  )?.why
