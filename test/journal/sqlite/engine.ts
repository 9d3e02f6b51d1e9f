/** An engine on a new journal, without the service around it. */
import { Engine } from "../../../src/journal/sqlite/commit/Engine.ts"
import { open } from "../../../src/journal/sqlite/file/Store.ts"
import { scan } from "../../../src/journal/sqlite/operations/StartupScan.ts"
import { options } from "../temporary.ts"

export const openEngine = () => {
  const at = options()
  const engine = new Engine(open(at.path), at)
  for (const _ of scan(engine, at, Date.now()));
  return { at, engine }
}

export const closeEngine = (engine: Engine) => {
  engine.stop()
  engine.store.close()
}
