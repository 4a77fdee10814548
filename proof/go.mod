module github.com/semel-go/semel/proof

go 1.25.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/semel-go/semel v0.0.0
	golang.org/x/net v0.58.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
)

replace github.com/semel-go/semel => ../
