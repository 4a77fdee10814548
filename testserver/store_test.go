package testserver_test

import "github.com/semel-go/semel/testserver"

var _ testserver.Transactor = (*testserver.MemStore)(nil)
