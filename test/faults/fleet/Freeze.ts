/**
 * One of three relays is frozen under load, for longer than the others wait. When it continues, it starts no attempt on
 * a stream that it lost, and nothing that it settles there is accepted.
 */
import { seeded } from "../../lib/seeded.ts"
import type { Line } from "../Line.ts"
import { eventually } from "../relay/Subject.ts"
import { names, over, type Relays, underLoad } from "./Relays.ts"

const rounds = { normal: 1, long: 10 }
/** Attempts that had started when it was frozen, and whose bytes had not left it yet. Nobody can call them back. */
const underWay = 4
const frozenFor = { normal: 0, long: 30_000 }

/**
 * Records in the database each relay that settles events of a stream that another relay owns, by its application name.
 */
const watch = (relays: Relays) =>
  relays.sql(`
    CREATE TABLE trespass (who text);
    GRANT ALL ON trespass TO PUBLIC;
    CREATE FUNCTION trespass(place bigint) RETURNS void LANGUAGE sql AS $$
      INSERT INTO relay.trespass SELECT current_setting('application_name') FROM relay.stream
      WHERE id = place AND current_setting('application_name') <> 'relay ' || owner
    $$;
    CREATE FUNCTION in_progress() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      -- Whoever appends may add a lane; what a lane has settled is its owner's.
      IF EXISTS (
        SELECT FROM jsonb_each(OLD.lanes || relay.among(OLD.lanes, OLD.changed)) AS was
        WHERE (NEW.lanes || relay.among(NEW.lanes, NEW.changed)) -> was.key <> was.value
      ) THEN
        PERFORM relay.trespass(NEW.stream);
      END IF;
      RETURN NEW;
    END $$;
    CREATE FUNCTION in_retry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM relay.trespass(NEW.sequence / 4398046511104);
      RETURN NEW;
    END $$;
    CREATE TRIGGER watched BEFORE UPDATE ON progress FOR EACH ROW EXECUTE FUNCTION in_progress();
    CREATE TRIGGER watched BEFORE INSERT OR UPDATE ON retry FOR EACH ROW EXECUTE FUNCTION in_retry();`)

export const freeze: Line = {
  name: "fleet-freeze",
  fault: "one of three relays stands still for long",
  run: over(async (relays, options) => {
    const random = seeded(options.seed)
    const broken: Array<string> = []
    let [worst, bound, late, fenced] = [0, 0, 0, 0]
    const count = options.long ? rounds.long : rounds.normal
    await watch(relays)
    for (let round = 1; round <= count; round++) {
      const victim = names[Math.floor(random() * names.length)] ?? "a"
      const before = relays.repeated
      await underLoad(relays, async () => {
        await Bun.sleep(1_000)
        await relays.slowDown(victim)
        bound = Math.max(bound, await relays.bound(victim))
        const fencedBefore = await relays.metric(victim, "relay_fenced_total")
        relays.signal(victim, "SIGSTOP")
        const stood = performance.now()
        // Its attempts in flight end meanwhile.
        await Bun.sleep(500)
        const left = new Set(relays.missingOf(victim))
        relays.arrivals = []
        if (!(await relays.arrived(30, victim)))
          broken.push(`round ${round}: what ${victim} had was not delivered by others`)
        if (left.size === 0) broken.push(`round ${round}: nothing was left: this has shown nothing`)
        await Bun.sleep(Math.max(0, (options.long ? frozenFor.long : frozenFor.normal) - (performance.now() - stood)))
        relays.signal(victim, "SIGCONT")
        await eventually(async () => (await relays.metric(victim, "relay_fenced_total")) > fencedBefore, 5)
        fenced += (await relays.metric(victim, "relay_fenced_total")) - fencedBefore
        // An attempt that it starts nevertheless has arrived by then.
        await Bun.sleep(1_000)
        late += relays.arrivals.filter(({ by, number }) => by === victim && left.has(number)).length
        relays.speedUp()
        relays.arrivals = undefined
      })
      if (!(await relays.arrived(60))) broken.push(`round ${round}: not all came within a minute`)
      worst = Math.max(worst, relays.repeated - before)
    }
    const taken = (await relays.sql("SELECT who FROM trespass")).length
    if (taken > 0) broken.push(`${taken} settlements were taken of a relay that had lost the stream`)
    if (late > underWay * count) broken.push(`${late} attempts began on what another relay had delivered meanwhile`)
    if (fenced === 0) broken.push("nobody was fenced")
    const notes = [`${fenced} streams lost to others; ${late} attempts after it, ${taken} settlements taken`]
    return { rounds: count, duplicates: worst, bound, broken, notes }
  }),
}
