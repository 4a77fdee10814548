// Package testserver is a reference server for idempotency keys: a guard that runs each key at most once, stores that
// remember what happened, faults that can be placed at every step, and a bank to judge by. It uses the standard library
// alone and shares no code with the client that it helps to test.
package testserver
