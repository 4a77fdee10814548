module github.com/semel-go/semel/testserver/pgstore

go 1.25.0
