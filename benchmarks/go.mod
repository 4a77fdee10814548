module github.com/semel-go/semel/benchmarks

go 1.25.0
