module github.com/semel-go/semel/proof

go 1.25.0
