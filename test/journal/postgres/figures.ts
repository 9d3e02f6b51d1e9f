/** The figures that a fleet reports of its journal, counted in the tables. */

/** The events of the log, one per row, with sequence, stream, time of receipt and lanes. */
const events = `SELECT log.first + place AS sequence, log.first / 4398046511104 AS stream, received_from AS received,
    routes::json -> (get_byte(keys, place * 16 + 12) + get_byte(keys, place * 16 + 13) * 256
      + get_byte(keys, place * 16 + 14) * 65536) AS sinks
  FROM relay.log, generate_series(0, log.count - 1) AS place WHERE NOT place = ANY(void)`

/** The events that no cursor and no settled range covers. */
const pending = `SELECT lane, event.sequence, received FROM event, json_array_elements_text(sinks) AS lane
  JOIN relay.progress ON true
  CROSS JOIN LATERAL (SELECT (progress.lanes || relay.among(progress.lanes, progress.changed)) -> lane AS place) AS at
  WHERE progress.stream = event.stream AND place IS NOT NULL AND event.sequence > (place ->> 'sequence')::bigint
    AND NOT EXISTS (
      SELECT FROM jsonb_array_elements(place -> 'settled') AS range
      WHERE event.sequence BETWEEN (range ->> 0)::bigint AND (range ->> 1)::bigint
    )`

/** The figures of each lane, in the schema "relay". */
export const lanesSql = `WITH event AS (${events}), pending AS (${pending}),
  lane AS (
    SELECT DISTINCT jsonb_object_keys(lanes) AS name FROM relay.progress
    UNION SELECT DISTINCT lane FROM relay.dead
  )
  SELECT name,
    (SELECT count(*) FROM pending WHERE lane = name) + (SELECT count(*) FROM relay.retry WHERE lane = name) AS backlog,
    (SELECT count(*) FROM relay.retry WHERE lane = name) AS retrying,
    (SELECT count(*) FROM relay.dead WHERE lane = name) AS letters,
    least((SELECT min(received) FROM pending WHERE lane = name),
      (SELECT min(first_attempt_at) FROM relay.retry WHERE lane = name AND first_attempt_at > 0)) AS oldest
  FROM lane ORDER BY name`

export const journalSql = `SELECT
  (SELECT coalesce(sum(head), 0) FROM (
     SELECT max(first + count - 1) % 4398046511104 AS head FROM relay.log GROUP BY first / 4398046511104) AS stream)
   - (SELECT coalesce(sum(cardinality(void)), 0) FROM relay.log)
   - (SELECT coalesce(sum(void), 0) FROM relay.pruned) AS accepted,
  (SELECT coalesce(sum(count - cardinality(void)), 0) FROM relay.log) AS kept,
  (SELECT coalesce(sum(octet_length(bytes) + octet_length(keys)), 0) FROM relay.log) AS bytes`

export interface Figures {
  readonly accepted: number
  readonly kept: number
  readonly bytes: number
  readonly lanes: Readonly<Record<string, Counts>>
}
export interface Counts {
  readonly backlog: number
  readonly retrying: number
  readonly deadLetters: number
}

type Row = Readonly<Record<string, unknown>>

export const figuresOf = (journal: ReadonlyArray<Row>, lanes: ReadonlyArray<Row>): Figures => ({
  accepted: Number(journal[0]?.accepted),
  kept: Number(journal[0]?.kept),
  bytes: Number(journal[0]?.bytes),
  lanes: Object.fromEntries(
    lanes.map(({ name, backlog, retrying, letters }) => [
      String(name),
      { backlog: Number(backlog), retrying: Number(retrying), deadLetters: Number(letters) },
    ]),
  ),
})
