/**
 * A relay's heartbeats and a commit of its own hang in the database. No other relay takes its stream before that commit
 * has ended, so the new owner finds the events. The relay itself lives, and starts no attempt meanwhile.
 */
import pg from "pg"
import type { Line } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { path, secret } from "../relay/Traffic.ts"
import { over, Relays, underLoad } from "./Relays.ts"

const rounds = { normal: 1, long: 10 }
const victim = "a"
/** Keys of advisory locks. */
const appends = 4711
const beats = 4712

/** Milliseconds that a relay may deliver after its last answered heartbeat. */
const lease = 4_000

/** The answer depends on the commit's result, and not on the time that it takes. */
const patient = { path, secrets: [{ name: "faults", value: secret }], commitTimeout: "30 seconds" }

/**
 * Makes the relay's appends to its own stream wait while `appends` is locked, and its heartbeats while `beats` is
 * locked.
 */
const triggers = `
  CREATE FUNCTION await_lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('application_name') = 'relay ${victim}' THEN
      PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER waits BEFORE INSERT ON log FOR EACH ROW
    WHEN (NEW.first / 4398046511104 <> 1) EXECUTE FUNCTION await_lock(${appends});
  CREATE TRIGGER waits BEFORE UPDATE ON member FOR EACH STATEMENT EXECUTE FUNCTION await_lock(${beats});`

const owned = `SELECT 1 FROM stream WHERE home = '${victim}' AND owner = '${victim}'`
const held = `SELECT 1 FROM pg_stat_activity
  WHERE application_name = 'relay ${victim}' AND wait_event = 'advisory' AND query LIKE '%INSERT INTO log%'`
const wanted = `SELECT 1 FROM pg_stat_activity
  WHERE application_name <> 'relay ${victim}' AND wait_event_type = 'Lock' AND query LIKE '%UPDATE stream%'`

export const lateCommit: Line = {
  name: "fleet-late-commit",
  fault: "a commit stands still in the database",
  run: over(
    async (relays, options) => {
      const broken: Array<string> = []
      const count = options.long ? rounds.long : rounds.normal
      let [worst, bound, late] = [0, 0, 0]
      const isSo = async (question: string) => (await relays.sql(question)).length > 0
      const holder = new pg.Client({ connectionString: relays.postgres.admin.replace(/postgres$/, "relay") })
      await holder.connect()
      await relays.sql(triggers)
      for (let round = 1; round <= count; round++) {
        const before = relays.repeated
        const attempt = async () => {
          // So much waits that the relay has something to begin to the end.
          await relays.slowDown(victim, 1_900)
          await Bun.sleep(1_000)
          bound = Math.max(bound, await relays.bound(victim))
          await holder.query(`SELECT pg_advisory_lock(${appends}), pg_advisory_lock(${beats})`)
          if (!(await eventually(() => isSo(held), 5))) broken.push(`round ${round}: no commit was held`)
          // An attempt that a relay starts after its lease of four seconds may belong to another relay by then.
          await Bun.sleep(lease + 500)
          relays.arrivals = []
          // A statement is given up after ten seconds.
          const isWanted = await eventually(async () => (await isSo(wanted)) || !(await isSo(owned)), 5)
          if (!isWanted) broken.push(`round ${round}: nobody wanted the stream: this has shown nothing`)
          if (!(await isSo(owned)))
            broken.push(`round ${round}: the stream was taken while a commit to it was under way`)
          // That commit ends, and the next one is held. Another relay takes the stream between the two.
          for (let turn = 0; turn < 5 && (await isSo(owned)); turn++) {
            await holder.query(`SELECT pg_advisory_unlock(${appends})`)
            await holder.query(`SELECT pg_advisory_lock(${appends})`)
            await eventually(async () => !(await isSo(owned)), 1)
          }
          if (await isSo(owned)) broken.push(`round ${round}: nobody took the stream when the commit had ended`)
          await Bun.sleep(500)
          await holder.query(`SELECT pg_advisory_unlock(${appends})`)
          await Bun.sleep(1_000)
          late += relays.arrivals.filter(({ by }) => by === victim).length
          relays.arrivals = undefined
          await holder.query(`SELECT pg_advisory_unlock(${beats})`)
          await Bun.sleep(1_000)
          relays.speedUp()
        }
        await underLoad(relays, attempt, 24)
        if (!(await relays.arrived(20))) broken.push(`round ${round}: not all came within 20 s`)
        worst = Math.max(worst, relays.repeated - before)
      }
      await holder.end()
      if (late > 0) broken.push(`${late} attempts began although no sign of life was answered`)
      return { rounds: count, duplicates: worst, bound, broken }
    },
    (options) => Relays.make(options, { settings: { webhooks: { scheduling: patient } } }),
  ),
}
