package pgstore

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// All statements keep to what PostgreSQL, CockroachDB and YugabyteDB share, and use clock_timestamp(): now() is the
// transaction's start.
const (
	// A second statement takes a new snapshot in READ COMMITTED, so that after insertSQL unlessInsertedSQL sees the row
	// that won. If the first one has won, the second does nothing: a setting that lasts for the transaction tells it.
	insertInto = `INSERT INTO @ (id, scope, key, fingerprint, owner, lease_until, expires_at, created_at, state, fence, started)
VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::bigint * interval '1 microsecond',
  clock_timestamp() + $7::bigint * interval '1 microsecond', clock_timestamp(), 1, 1, `
	otherwise = `) ON CONFLICT (id) DO NOTHING RETURNING set_config('semel.inserted', '1', true)`
	insertSQL = insertInto + `$8` + otherwise

	readSQL = `SELECT state, fingerprint, owner, fence, started, lease_until, created_at, expires_at, clock_timestamp(),
  status, header, body FROM @ WHERE id = $1`
	unlessInsertedSQL = readSQL + ` AND current_setting('semel.inserted', true) IS DISTINCT FROM '1'`

	// In a transaction settings ride along. lock_timeout bounds the wait for the key alone: it is set before the row is
	// inserted and put back after. The row's started is true, so that it is never taken over, should it be committed
	// without an end.
	enterSQL = insertInto + `set_config('semel.lock_timeout', current_setting('lock_timeout'), true) <> ''
  AND set_config('lock_timeout', $8, true) <> '' AND set_config('idle_in_transaction_session_timeout', $9, true) <> ''` + otherwise + putBack
	putBack    = `, set_config('lock_timeout', current_setting('semel.lock_timeout'), true)`
	insteadSQL = `SELECT set_config('semel.inserted', '1', true)` + putBack // after a compare-and-set

	// The same in a session whose settings are known: $9 is its lock_timeout. Should somebody have set another one since,
	// started is NULL, which the table refuses.
	enterKnownSQL = insertInto + `(current_setting('lock_timeout') = $9 OR NULL) AND set_config('lock_timeout', $8, true) <> ''` +
		otherwise + `, set_config('lock_timeout', $9, true)`
	insteadKnownSQL = `SELECT set_config('semel.inserted', '1', true), set_config('lock_timeout', $1, true)`

	// A refusal, after all else was rolled back. Its transaction ends with it, and so does the lock_timeout.
	keepSQL = `INSERT INTO @ (id, scope, key, fingerprint, owner, lease_until, expires_at, created_at, state, fence, started, status, header, body)
VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::bigint * interval '1 microsecond',
  clock_timestamp() + $7::bigint * interval '1 microsecond', clock_timestamp(), $9, 1, set_config('lock_timeout', $8, true) <> '', $10, $11, $12)
ON CONFLICT (id) DO NOTHING`
	beginCommittedSQL = `BEGIN ISOLATION LEVEL READ COMMITTED`

	sessionSQL = `SELECT current_setting('lock_timeout'), current_setting('default_transaction_isolation'), current_setting('idle_in_transaction_session_timeout') = '0'
  AND set_config('idle_in_transaction_session_timeout', $1, false) <> ''`

	// Compare and set: $2 and $3 are owner and fence as they were seen. A row that is locked belongs to a live
	// transaction and is passed over.
	seen      = `WITH l AS MATERIALIZED (SELECT id FROM @ WHERE id = $1 AND owner = $2 AND fence = $3 AND state = 1`
	andLapsed = ` AND lease_until <= clock_timestamp()`
	unlocked  = ` FOR NO KEY UPDATE SKIP LOCKED) UPDATE @ t SET `
	ofSeen    = ` FROM l WHERE t.id = l.id`

	takeoverSQL = seen + andLapsed + ` AND NOT started` + unlocked +
		`owner = $4, fence = fence + 1, started = $5, lease_until = clock_timestamp() + $6::bigint * interval '1 microsecond'` + ofSeen
	lapseSQL   = seen + andLapsed + unlocked + `state = 3` + ofSeen
	refreshSQL = seen + unlocked + `lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond'` + ofSeen

	overwriteSQL = `UPDATE @ SET fingerprint = $4, owner = $5, started = $6, lease_until = clock_timestamp() + $7::bigint * interval '1 microsecond',
  expires_at = clock_timestamp() + $8::bigint * interval '1 microsecond', created_at = clock_timestamp(), state = 1, fence = fence + 1,
  status = NULL, header = NULL, body = NULL
WHERE id = $1 AND owner = $2 AND fence = $3 AND state IN (2, 4) AND expires_at <= clock_timestamp()`

	// Nobody learned of this claim, so nothing has started under it.
	dropSQL = `DELETE FROM @ WHERE id = $1 AND owner = $2 AND state IN (1, 3)`

	// An end that comes when the retention is over is kept for another: a client may still ask.
	settleSQL = `UPDATE @ SET state = $4, status = $5, header = $6, body = $7,
  expires_at = CASE WHEN expires_at <= clock_timestamp() THEN clock_timestamp() + (expires_at - created_at) ELSE expires_at END
WHERE id = $1 AND owner = $2 AND fence = $3 AND state IN (1, 3)`
	freeSQL = `DELETE FROM @ WHERE id = $1 AND owner = $2 AND fence = $3 AND state IN (1, 3) AND NOT started`

	// In a transaction that somebody else began after ending ours the setting is no number, and this fails, so that the
	// COMMIT behind it is passed over.
	finishSQL = settleSQL + ` AND current_setting('semel.inserted')::integer = 1`

	// A row that is not updated, but stands under its hold in the statement's snapshot, was locked.
	renewSQL = `WITH h AS (
  SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::boolean[], $5::bigint[]) AS h (id, owner, fence, started, n)
), l AS (
  SELECT t.id, t.owner, t.fence, h.started, h.n FROM h JOIN @ t ON t.id = h.id
  WHERE t.owner = h.owner AND t.fence = h.fence AND t.state IN (1, 3) FOR NO KEY UPDATE OF t SKIP LOCKED
), u AS (
  UPDATE @ t SET state = 1, started = t.started OR l.started, lease_until = clock_timestamp() + $6::bigint * interval '1 microsecond'
  FROM l WHERE t.id = l.id AND t.owner = l.owner AND t.fence = l.fence AND t.state IN (1, 3)
  RETURNING l.n
)
SELECT n, 0 FROM u
UNION ALL
SELECT h.n, 1 FROM h JOIN @ t ON t.id = h.id
WHERE t.owner = h.owner AND t.fence = h.fence AND t.state IN (1, 3) AND h.n NOT IN (SELECT n FROM u)`

	stillSQL = `SELECT h.n FROM unnest($1::uuid[], $2::bigint[]) AS h (id, n)
JOIN @ t ON t.id = h.id WHERE t.state = 1 AND t.lease_until > clock_timestamp()`

	// The sub-select makes the clock a constant that the index can be searched with. The predicate is repeated for rows
	// that were claimed anew in between.
	purgeSQL = `WITH d AS MATERIALIZED (
  SELECT id FROM @ WHERE expires_at <= (SELECT clock_timestamp()) AND state IN (2, 4)
  ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM @ t USING d WHERE t.id = d.id AND t.state IN (2, 4) AND t.expires_at <= clock_timestamp()`

	savepointSQL = `SAVEPOINT semel_effect`
	undoSQL      = `ROLLBACK TO SAVEPOINT semel_effect`
	commitSQL    = `COMMIT`
	rollbackSQL  = `ROLLBACK`
)

// statements are the ones above for one table.
type statements struct {
	table                                                          string
	insert, unlessInserted, read                                   string
	takeover, lapse, refresh, overwrite, drop, settle, free, renew string
	still, purge, enter, enterKnown, finish, keep                  string
}

func newStatements(table string) statements {
	t := quoted(table)
	on := func(sql string) string { return strings.ReplaceAll(sql, "@", t) }
	return statements{
		table: t, insert: on(insertSQL), unlessInserted: on(unlessInsertedSQL), read: on(readSQL), takeover: on(takeoverSQL),
		lapse: on(lapseSQL), refresh: on(refreshSQL), overwrite: on(overwriteSQL), drop: on(dropSQL), settle: on(settleSQL),
		free: on(freeSQL), renew: on(renewSQL), still: on(stillSQL), purge: on(purgeSQL), enter: on(enterSQL),
		enterKnown: on(enterKnownSQL), finish: on(finishSQL), keep: on(keepSQL),
	}
}

func quoted(table string) string {
	return pgx.Identifier(strings.Split(orElse(table, "semel_keys"), ".")).Sanitize()
}
