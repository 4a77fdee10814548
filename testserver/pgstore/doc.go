// Package pgstore keeps the claims on keys in PostgreSQL. [Store] is a [testserver.Store] for effects outside the
// database and a [testserver.Transactor] for effects inside it; many processes share one table.
//
// A claim is one round trip, and so is the replay of an answer, which writes nothing. A transactional request costs no
// round trip beyond those of the handler's own transaction. All times are the database's.
//
//	config, err := pgxpool.ParseConfig(dsn)
//	store := &pgstore.Store{}
//	store.Configure(config) // prepares the statements with each new connection
//	store.DB, err = pgxpool.NewWithConfig(ctx, config)
//	err = store.CreateSchema(ctx)
//	defer store.Close()
package pgstore
