import { eventsContract } from "../contract/eventsContract.ts"
import { journalContract } from "../contract/journalContract.ts"
import * as MemoryJournal from "./MemoryJournal.ts"

journalContract("MemoryJournal", () => MemoryJournal.layer)
eventsContract("MemoryJournal", () => MemoryJournal.layer)
