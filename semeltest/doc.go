// Package semeltest breaks HTTP calls on purpose: it loses any byte at any moment, for a client or a server under test, and
// says which end is wrong.
package semeltest
