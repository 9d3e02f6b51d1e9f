/** The audit log of the journal: each record is a transaction of its own. */
import type { AuditLog } from "../../AuditLog.ts"
import type { WallClock } from "../../WallClock.ts"
import type { Engine } from "../commit/Engine.ts"
import { nothing } from "../commit/LaneStore.ts"
import { AuditRows } from "../rows/AuditRows.ts"
import { attempt, patient } from "./EngineEffects.ts"

export const auditOf = (engine: Engine, wallClock: WallClock): AuditLog => {
  const rows = new AuditRows(engine.store.db, wallClock)
  return {
    record: (operation) =>
      patient(() =>
        engine.apply(() => {
          rows.add(operation)
          return nothing
        }),
      ),
    list: (query) => attempt(() => engine.guard(() => rows.list(query))),
  }
}
