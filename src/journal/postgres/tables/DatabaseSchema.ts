/**
 * The tables, and how they are created: each version of the schema is a step.
 *
 * **Guarantee.** One relay runs a step, completely, while others that start wait for it. If a newer relay wrote
 * the schema, it is refused, because this relay doesn't know its contents. A released step is never changed;
 * the next step changes its results.
 *
 * **Guarantee.** A running relay continues while the next version takes its step. A step adds tables, columns
 * with a default and functions, and keeps everything that the previous version reads and writes. Parts that
 * only the previous version used are removed by the following version's step.
 *
 * If a relay finds the schema at its own version, it needs no right to change it.
 */
import { Effect, Schedule } from "effect"
import { relayVersion } from "../../../runtime/Version.ts"
import { newerJournal } from "../../JournalError.ts"
import type { Database, Queries } from "../connection/Database.ts"
import { type DatabaseError, databaseError } from "../connection/DatabaseError.ts"

/** Names have no schema, because the session's `search_path` is the journal's own. */
export const steps: ReadonlyArray<string> = [
  `CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL);
   INSERT INTO meta VALUES ('identity', gen_random_uuid()::text);

   -- The server's timeline, which rises with each promotion of a standby; 0 where a server does not say it.
   -- It stays the same when a snapshot or a dump is restored: a relay then raises "histories".
   INSERT INTO meta VALUES ('histories', '0');
   DO $do$ BEGIN
     PERFORM pg_walfile_name(pg_current_wal_lsn());
     CREATE FUNCTION server_timeline() RETURNS bigint LANGUAGE sql STABLE AS
       $body$ SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint $body$;
   EXCEPTION WHEN feature_not_supported OR undefined_function OR insufficient_privilege THEN
     CREATE FUNCTION server_timeline() RETURNS bigint LANGUAGE sql STABLE AS $body$ SELECT 0::bigint $body$;
   END $do$;
   CREATE FUNCTION timeline() RETURNS bigint LANGUAGE plpgsql STABLE AS
     $body$ BEGIN RETURN server_timeline() + (SELECT value::bigint FROM meta WHERE key = 'histories'); END $body$;

   -- A relay's log. The beat is the member's, so that no append waits for one. An epoch is of a timeline: its upper half
   -- is that timeline, and its lower half rises with each owner.
   CREATE TABLE stream (
     id int PRIMARY KEY, home text UNIQUE, owner text,
     epoch bigint NOT NULL DEFAULT 0, spare boolean NOT NULL DEFAULT false);
   CREATE FUNCTION next_epoch(epoch bigint) RETURNS bigint LANGUAGE sql STABLE AS
     $body$ SELECT (timeline() << 32) + (epoch & 4294967295) + 1 $body$;
   -- The one that all relays append to, for sinks that need one mind.
   INSERT INTO stream (id) VALUES (1);

   CREATE TABLE member (
     name text PRIMARY KEY, instance text NOT NULL, beat bigint NOT NULL DEFAULT 0,
     version text NOT NULL DEFAULT '', config_hash text NOT NULL DEFAULT '', address text NOT NULL DEFAULT '',
     -- The types of the sinks of the config with this hash, by name.
     sinks jsonb NOT NULL DEFAULT '{}',
     report jsonb NOT NULL DEFAULT '{}') WITH (fillfactor = 50);
   -- Whether the database has the last sign of life that a relay knows to be stored: its name, instance, beat and timeline.
   -- A promoted server may lack it.
   CREATE FUNCTION knows(sign text[]) RETURNS boolean LANGUAGE plpgsql STABLE AS
     $body$ DECLARE ahead bigint := timeline() - sign[4]::bigint;
     BEGIN
       RETURN ahead > 0 OR ahead = 0
         AND EXISTS (SELECT FROM member WHERE name = sign[1] AND instance = sign[2] AND beat >= sign[3]::bigint);
     END $body$;

   -- A commit's events in one row. The bytes are packed already, or small: compressing them again costs more than it saves.
   -- The relay gives each commit an identity; events that were copied from another journal have none.
   CREATE TABLE log (
     first bigint PRIMARY KEY, count int NOT NULL, received_from bigint NOT NULL, received_to bigint NOT NULL,
     routes text NOT NULL, keys bytea NOT NULL, ids bytea NOT NULL, void int[] NOT NULL, altered int[] NOT NULL,
     bytes bytea NOT NULL, timeline bigint NOT NULL DEFAULT timeline(), commit uuid);
   CREATE INDEX log_received ON log (received_to, first);
   ALTER TABLE log ALTER keys SET STORAGE EXTERNAL, ALTER bytes SET STORAGE EXTERNAL;

   -- Up to which sequence a stream's rows of a timeline were deleted, and how many numbers of duplicates they had.
   CREATE TABLE pruned (
     stream int, timeline bigint, last bigint NOT NULL, void bigint NOT NULL, PRIMARY KEY (stream, timeline));

   CREATE TABLE seen (
     lo int, hi int, crc int, at bigint NOT NULL, sequence bigint NOT NULL, PRIMARY KEY (lo, hi, crc));
   CREATE INDEX seen_at ON seen USING brin (at);

   -- The places of a stream's lanes, and their other names: LaneNames.ts says what these mean. A settlement stores places
   -- in "changed", so that it doesn't rewrite those of idle lanes. From time to time they move to "lanes".
   CREATE TABLE progress (
     stream int PRIMARY KEY, lanes jsonb NOT NULL DEFAULT '{}', changed jsonb NOT NULL DEFAULT '{}',
     names jsonb NOT NULL DEFAULT '{}', past jsonb NOT NULL DEFAULT '[]') WITH (fillfactor = 50);
   -- Returns the changed places of existing lanes. A late settlement must not bring back a lane that was renamed or dropped.
   CREATE FUNCTION among(lanes jsonb, changed jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $body$
     SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(changed) WHERE lanes ? key $body$;
   INSERT INTO progress (stream) VALUES (1);

   CREATE TABLE retry (
     lane text, sequence bigint, key text NOT NULL, due bigint NOT NULL, delay bigint NOT NULL,
     first_attempt_at bigint NOT NULL, tried int NOT NULL, attempts text NOT NULL, record bytea NOT NULL,
     PRIMARY KEY (lane, sequence));
   -- Replayed dead letters that their lanes have yet to take up: counted each second.
   CREATE INDEX retry_returned ON retry (lane, sequence) WHERE delay = -1;
   ALTER TABLE retry ALTER record SET STORAGE EXTERNAL;

   CREATE TABLE dead (
     lane text, sequence bigint, at bigint NOT NULL, type text NOT NULL, size int NOT NULL,
     attempts text NOT NULL, record bytea NOT NULL, webhook text NOT NULL,
     -- All that is counted each second, so that no record is read for it.
     PRIMARY KEY (sequence, lane) INCLUDE (webhook, size));
   CREATE INDEX dead_lane ON dead (lane, sequence);
   ALTER TABLE dead ALTER record SET STORAGE EXTERNAL;

   -- How events ended at their lanes: see "OutcomeRecord.ts". "bucket" is the sequence by 128.
   CREATE TABLE outcome (bucket bigint, lane text, bytes bytea NOT NULL, PRIMARY KEY (bucket, lane));
   ALTER TABLE outcome ALTER bytes SET STORAGE EXTERNAL;
   CREATE TABLE ended (
     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sequence bigint NOT NULL, lane text NOT NULL, at bigint NOT NULL,
     outcome text NOT NULL, last bigint, copy bigint, note text NOT NULL);
   CREATE INDEX ended_event ON ended (sequence);
   CREATE INDEX ended_copy ON ended (copy) WHERE copy IS NOT NULL;
   CREATE INDEX ended_range ON ended (last) WHERE last IS NOT NULL;
   CREATE INDEX retry_sequence ON retry (sequence);

   CREATE TABLE imported (
     journal text, sequence bigint, lanes jsonb NOT NULL, PRIMARY KEY (journal, sequence));

   -- What operators changed: see "AuditLog.ts".
   CREATE TABLE audit (
     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, who text NOT NULL, "by" text NOT NULL,
     what text NOT NULL, "on" text NOT NULL, result text NOT NULL, note text NOT NULL, relay text NOT NULL);

   -- The counts of each relay's last hour, as a text of its own.
   CREATE TABLE hour (relay text PRIMARY KEY, at timestamptz NOT NULL, counts text NOT NULL);

   -- A pause ends by itself at "until", in epoch milliseconds. "mute" stays after that.
   CREATE TABLE sink (name text PRIMARY KEY, paused boolean NOT NULL DEFAULT false, until bigint, mute jsonb);

   CREATE FUNCTION append_shared(a_lo int[], a_hi int[], a_crc int[], a_place int[], a_count int, a_from bigint, a_to bigint, a_routes text, a_keys bytea, a_ids bytea, a_bytes bytea, a_lanes text[], a_former jsonb, a_commit uuid, a_again boolean, a_sign text[])
   RETURNS TABLE (owned boolean, first bigint, timeline bigint, void int[], altered int[], found boolean) LANGUAGE plpgsql AS $body$
   #variable_conflict use_column
   DECLARE head bigint;
   BEGIN
     -- Held until the commit: so the order of the sequences is the order of the commits.
     PERFORM pg_advisory_xact_lock('log'::regclass::oid::bigint);
     IF NOT knows(a_sign) THEN
       RETURN QUERY SELECT false, 0::bigint, timeline(), '{}'::int[], '{}'::int[], false;
       RETURN;
     END IF;
     IF a_again THEN
       -- An earlier try of this commit has ended by now, and may have stored it.
       RETURN QUERY SELECT true, l.first, l.timeline, l.void, l.altered, true FROM log l WHERE l.received_to = a_to AND l.commit = a_commit;
       IF FOUND THEN
         PERFORM FROM stream s WHERE s.id = 1 FOR KEY SHARE;
         RETURN;
       END IF;
     END IF;
     SELECT l.first + l.count - 1 INTO head FROM log l WHERE l.first > 4398046511104 AND l.first < 8796093022208 ORDER BY l.first DESC LIMIT 1;
     head := coalesce(head, 4398046511104);
     IF EXISTS (SELECT FROM progress p, unnest(a_lanes) AS name WHERE p.stream = 1 AND NOT p.lanes ? coalesce(p.names -> name ->> 'to', name)) THEN
       -- A sink's events belong to the lane that it has under its former name, until the owner of the stream renames that lane.
       PERFORM FROM stream s WHERE s.id = 1 FOR UPDATE;
       WITH renamed AS (
         SELECT name, coalesce(p.names -> (a_former ->> name) ->> 'to', a_former ->> name) AS lane FROM progress p, unnest(a_lanes) AS name
         WHERE p.stream = 1 AND NOT p.lanes ? name AND NOT p.names ? name AND a_former ? name
       ), named AS (
         UPDATE progress AS p SET names = p.names || added.names
         FROM (SELECT jsonb_object_agg(r.name, jsonb_build_object('to', r.lane, 'after', head)) AS names FROM renamed r, progress q WHERE q.stream = 1 AND q.lanes ? r.lane) AS added
         WHERE p.stream = 1 AND added.names IS NOT NULL RETURNING p.stream
       )
       UPDATE stream s SET epoch = next_epoch(s.epoch) FROM named WHERE s.id = named.stream;
       UPDATE progress AS p SET lanes = new.lanes || p.lanes, changed = among(p.lanes, p.changed) FROM (
         SELECT jsonb_object_agg(coalesce(q.names -> name ->> 'to', name), jsonb_build_object('sequence', head, 'settled', '[]'::jsonb, 'pausedFor', 0)) AS lanes
         FROM progress q, unnest(a_lanes) AS name WHERE q.stream = 1
       ) AS new WHERE p.stream = 1;
     END IF;
     RETURN QUERY
     WITH key AS MATERIALIZED (SELECT k.lo, k.hi, k.crc, k.place FROM unnest(a_lo, a_hi, a_crc, a_place) AS k(lo, hi, crc, place)),
       fresh AS (
         INSERT INTO seen (lo, hi, crc, at, sequence)
         SELECT key.lo, key.hi, key.crc, (extract(epoch FROM now()) * 1000)::bigint, head + 1 + key.place FROM key ORDER BY key.lo, key.hi, key.crc
         ON CONFLICT DO NOTHING RETURNING seen.sequence
       ),
       void AS MATERIALIZED (SELECT coalesce(array_agg(key.place), '{}') AS places FROM key WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.sequence = head + 1 + key.place)),
       altered AS MATERIALIZED (SELECT coalesce(array_agg(key.place), '{}') AS places FROM key, LATERAL (SELECT FROM seen WHERE seen.lo = key.lo AND seen.hi = key.hi AND seen.crc <> key.crc LIMIT 1) AS other),
       stored AS (
         INSERT INTO log (first, count, received_from, received_to, routes, keys, ids, void, altered, bytes, commit)
         SELECT head + 1, a_count, a_from, a_to, a_routes, a_keys, a_ids, void.places, altered.places, a_bytes, a_commit FROM void, altered
         WHERE a_count > cardinality(void.places) RETURNING log.first
       )
     SELECT true, coalesce((SELECT stored.first FROM stored), 0), timeline(), void.places, altered.places, false FROM void, altered;
     -- A transaction that writes nothing does not wait for a standby. This lock is written, so an answer about
     -- duplicates alone waits until the commits that stored them are as durable as the session requires.
     PERFORM FROM stream s WHERE s.id = 1 AND NOT EXISTS (SELECT FROM log l WHERE l.first = head + 1) FOR KEY SHARE;
   END $body$;`,
  `-- The alerts of lanes with a policy. "key" is JSON. Only the lane reads "state": see "Alerts.ts".
   CREATE TABLE alert (stream bigint, lane text, key text, state text NOT NULL, PRIMARY KEY (stream, lane, key));`,
]

/** The version that this relay reads and writes. */
export const latest = steps.length

/** The schema found in a database. */
export interface FoundSchema {
  /** 0 if there is none yet. */
  readonly version: number
  /** Why this relay can't use it. Set if a newer relay wrote it. */
  readonly refusal?: string
}

/** Reads the version of the schema that is on the search path. */
export const find = (queries: Queries, schema: string): Effect.Effect<FoundSchema, DatabaseError> =>
  Effect.gen(function* () {
    const { rows } = yield* queries.query(
      "SELECT 1 FROM pg_tables WHERE schemaname = current_schema AND tablename = 'meta'",
    )
    if (rows.length === 0) return { version: 0 }
    const found = yield* queries.query<{ readonly key: string; readonly value: string }>(
      "SELECT key, value FROM meta WHERE key IN ('version', 'writer')",
    )
    const facts = new Map(found.rows.map(({ key, value }) => [key, value]))
    const version = Number(facts.get("version") ?? 0)
    if (version <= latest) return { version }
    return { version, refusal: newerJournal(`the schema ${schema}`, facts.get("writer")) }
  })

/** Returns the version of the schema. Fails if a newer relay wrote it. */
const usable = Effect.fnUntraced(function* (queries: Queries, schema: string) {
  const { version, refusal } = yield* find(queries, schema)
  if (refusal !== undefined) return yield* Effect.fail(databaseError("misconfigured", refusal))
  return version
})

/** Migrates the schema to the version of this relay, or creates it if there is none. */
export const migrate = (
  database: Database,
  schema: string,
  { to = steps }: { readonly to?: ReadonlyArray<string> } = {},
): Effect.Effect<void, DatabaseError> =>
  Effect.gen(function* () {
    if ((yield* usable(database, schema)) >= to.length) return
    yield* Effect.retry(
      database.transact((transaction) => advance(transaction, schema, to)),
      { while: isInUse, times: 30, schedule: Schedule.jittered(Schedule.spaced("2 seconds")) },
    )
  }).pipe(Effect.mapError((error) => (isInUse(error) ? inUse(schema, error) : error)))

/** A step that waits for a table blocks running relays. So it gives way, before the server looks for deadlocks. */
const longestWait = "500ms"

/** A step gave way to another transaction. */
const isInUse = ({ reason }: DatabaseError): boolean => reason === "conflict"

const inUse = (schema: string, { message, code }: DatabaseError): DatabaseError =>
  databaseError(
    "unavailable",
    `the schema ${schema} can't be brought up to date while other transactions hold its tables, as pg_dump does: start the relay again when they have ended (${message})`,
    { code },
  )

const advance = Effect.fnUntraced(function* (transaction: Queries, schema: string, to: ReadonlyArray<string>) {
  // Held until the end of the transaction, so that relays that wait here find the work done.
  yield* transaction.query("SELECT pg_advisory_xact_lock(hashtext('relay'), hashtext($1))", [schema])
  const { rows } = yield* transaction.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema])
  // It doesn't use IF NOT EXISTS, because that requires the right to create even if there is nothing to do.
  if (rows.length === 0) yield* transaction.query(`CREATE SCHEMA "${schema.replaceAll('"', '""')}"`)
  const from = yield* usable(transaction, schema)
  yield* transaction.query(`SET LOCAL lock_timeout = '${longestWait}'`)
  for (const step of to.slice(from)) yield* transaction.query(step)
  const facts =
    "INSERT INTO meta VALUES ('version', $1), ('writer', $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
  if (from < to.length) yield* transaction.query(facts, [String(to.length), relayVersion])
})
