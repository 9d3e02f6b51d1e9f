import * as MemoryJournal from "../../src/journal/MemoryJournal.ts"
import { eventsContract } from "../contract/eventsContract.ts"
import { journalContract } from "../contract/journalContract.ts"

journalContract("MemoryJournal", () => MemoryJournal.layer)
eventsContract("MemoryJournal", () => MemoryJournal.layer)
